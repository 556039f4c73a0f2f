"""The fault table: every step, broken in every way, and what came of it."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Fault(StrEnum):
    """What happens at the failpoint."""

    killed = "process killed"
    postgres_stopped = "Postgres stopped (immediate)"
    paused = "paused while a reset and a run pass by"


@dataclass(frozen=True, slots=True)
class Case:
    """A failpoint of a numbered step, and the hit at which it fires."""

    step: str
    failpoint: str
    at: int = 1
    program: str = "run"
    in_flight: int = 1
    mode: str = "append"

    def __str__(self) -> str:
        name = f"{self.step.replace(' ', '-')}-{self.failpoint}"
        return f"{name}-{self.way}".replace(" ", "-").rstrip("-")

    @property
    def way(self) -> str:
        """How it differs from one batch at a time that appends."""
        if self.mode != "append":
            return self.mode
        return "two in flight" if self.in_flight == 2 else ""


def _steps(step: str, at: int, *failpoints: str, program: str = "run") -> list[Case]:
    return [Case(step, failpoint, at, program) for failpoint in failpoints]


def _transaction(step: str, name: str, at: int, *inside: str, program: str = "run") -> list[Case]:
    points = (*inside, f"{name}.commit.before", f"{name}.commit.sent", f"{name}.commit.after")
    return _steps(step, at, *points, program=program)


MIRROR = ("mirror.before", "mirror.fenced", "mirror.read", "mirror.sent", "mirror.after")

IN_DRIVER = [
    *_steps("1 open", 1, "open.before"),
    *_transaction("1 open", "open", 1, "open.inside"),
    *_steps("1 open", 1, "open.decided", *MIRROR, "open.after"),
    *_steps("3 plan", 2, "plan.before"),
    *_transaction("3 plan", "plan", 2, "plan.inside"),
    *_steps("3 plan", 2, "plan.after"),
    *_transaction("4 drain", "staging", 2),
    *_transaction("5 stage", "reads", 2),
    *_steps("5 stage", 2, "drain.staged"),
    *_steps("6 publish", 2, "publish.before", "publish.claimed", "publish.moved"),
    *_transaction("6 publish", "publish", 2),
    *_steps("7 mirror", 3, *MIRROR),
    *_steps("8 close", 1, "close.before"),
    *_transaction("8 close", "close", 1),
    *_steps("8 close", 1, "close.after"),
    *_steps("9 reset", 1, "reset.before", program="reset"),
    *_transaction("9 reset", "reset", 1, "reset.inside", program="reset"),
    *_steps("9 reset", 1, "reset.decided", *MIRROR, "reset.after", program="reset"),
    *_steps("9 rewind", 1, "reset.before", program="rewind"),
    *_transaction("9 rewind", "reset", 1, "reset.inside", program="rewind"),
    *_steps("9 rewind", 1, "reset.decided", *MIRROR, "reset.after", program="rewind"),
    *_transaction("9 rewind", "rewind", 1, "rewind.removed", program="rewind"),
    *_steps("9 rewind", 1, "rewind.done", program="rewind"),
    *_steps("9 replay", 1, "reset.decided", "replay.before", program="replay"),
    *_transaction("9 replay", "plan", 1, program="replay"),
    *_steps("9 replay", 1, "replay.staged", program="replay"),
    *_transaction("9 replay", "replay", 1, "replay.moved", program="replay"),
]
"""Failpoints that the driver reaches."""

WITHHOLDING = [
    *_steps("9 withhold", 1, "reset.before", program="withhold"),
    *_transaction("9 withhold", "reset", 1, "reset.inside", program="withhold"),
    *_steps("9 withhold", 1, "reset.decided", *MIRROR, "reset.after", program="withhold"),
    *_transaction("9 withhold", "withhold", 1, program="withhold"),
    *_steps("9 withhold", 1, "withhold.done", program="withhold"),
    *_steps("9 withheld", 2, "mirror.fenced", "mirror.after", program="withhold"),
]
"""Failpoints of a batch that is withheld from the output topic."""

IN_WORKER = [
    *_steps("4 drain", 1, "read.before", "read.middle", "read.staged", "read.after"),
    *_steps("5 stage", 1, "stage.before", "stage.copy", "stage.commit", "stage.after"),
]
"""Failpoints that a reader or writer reaches, in a process of the pool."""

LOST_ANSWERS = [
    *_steps("1 open", 1, "open.commit.lost", "open.commit.sent"),
    *_steps("6 publish", 2, "publish.commit.lost", "publish.commit.sent"),
    *_steps("9 reset", 1, "reset.commit.lost", "reset.commit.sent", program="reset"),
    *_steps("9 rewind", 1, "rewind.commit.lost", "rewind.commit.sent", program="rewind"),
    *_steps("9 replay", 1, "replay.commit.lost", "replay.commit.sent", program="replay"),
    *(
        Case("9 withhold", f"withhold.commit.{at}", program="withhold", mode="output")
        for at in ("lost", "sent")
    ),
]
"""COMMIT without an answer: lost on the way there, or on the way back."""

WITH_TWO = [
    replace(case, in_flight=2)
    for case in [*IN_DRIVER, *IN_WORKER]
    if case.step[0] in "34567" and case.program == "run"
]
"""The steps of a member, with two batches in flight."""

WITH_UPSERT = [
    replace(case, mode="upsert")
    for case in IN_DRIVER
    if case.step in ("6 publish", "9 reset", "9 rewind")
]
"""The steps that know what a batch does to the target, for rows that are upserted."""

WITH_TARGETS = [replace(case, mode="targets") for case in WITH_UPSERT]
"""The same steps for two targets, one of each mode."""

WITH_OUTPUT = [
    replace(case, mode="output")
    for case in [
        *IN_DRIVER,
        *WITHHOLDING,
        Case("1 open", "mirror.sending"),
        Case("7 mirror", "mirror.sending", 3),
        Case("9 reset", "mirror.sending", program="reset"),
        Case("9 rewind", "mirror.sending", program="rewind"),
    ]
    if case.step
    in ("1 open", "7 mirror", "8 close", "9 reset", "9 rewind", "9 withhold", "9 withheld")
]
"""The steps that send rows to a topic, or decide what is sent."""

WITH_OUTBOX = [
    replace(case, mode="outbox") for case in WITH_OUTPUT if case.step in ("7 mirror", "9 rewind")
] + [replace(case, mode="outbox") for case in IN_DRIVER if case.step == "6 publish"]
"""The same for rows that are upserted, and the step that keeps what is sent of them."""

CUT = {
    "killed-6-publish-publish.commit.sent",
    "killed-9-rewind-rewind.removed-targets",
    "killed-7-mirror-mirror.sent-output",
    "postgres_stopped-5-stage-drain.staged-two-in-flight",
    "paused-6-publish-publish.before-two-in-flight",
    "paused-9-replay-replay.staged",
}
"""The cells that `make test` tries, by their names; the second tier tries all.

Each fault where most hangs on it, in the mode that holds most: two targets are one of each mode.
"""


def name_of(fault: Fault, case: Case) -> str:
    """What its test is called by."""
    return f"{fault.name}-{case}"


def cells() -> list[tuple[Fault, Case]]:
    """Every cell of the table."""
    everywhere = [
        *IN_DRIVER,
        *IN_WORKER,
        *WITH_TWO,
        *WITH_UPSERT,
        *WITH_TARGETS,
        *WITH_OUTPUT,
        *WITH_OUTBOX,
    ]
    return [
        *((Fault.killed, case) for case in everywhere),
        *((Fault.postgres_stopped, case) for case in everywhere),
        *((Fault.paused, case) for case in everywhere if not is_in_worker(case)),
    ]


def is_in_worker(case: Case) -> bool:
    """Whether a process of the pool reaches the failpoint."""
    return replace(case, in_flight=1) in IN_WORKER
