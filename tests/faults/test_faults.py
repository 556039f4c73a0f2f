"""Break each step in each way; after one more run everything must be as if nothing had happened."""

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.broken import Broken
from tests.faults.cases import LOST_ANSWERS, Case, Fault, is_in_worker
from tests.faults.region import FaultRegion
from tests.support.processes import resume

from tidemark.errors import Fenced, OutputTooLarge, Superseded
from tidemark.protocol.errors import SettleDidNotHappen
from tidemark_local.postgres import Postgres

Record = Callable[[Fault, Case, str], None]
LOOKED_UP = ("publish.commit.lost",)
"""COMMITs without an answer that `make test` tries."""


def test_after_any_fault_one_more_run_leaves_everything_exactly_once(
    cell: tuple[Fault, Case],
    region: FaultRegion,
    breakable: Postgres,
    record: Record,
    tmp_path: Path,
) -> None:
    """B8, B9, B18: with one batch in flight, two, upserts, two targets, an output topic."""
    fault, case = cell
    prepare(case, region)
    result = BREAK[fault](case, region, breakable, tmp_path)
    go_on(case, region)
    assert region.faults_found() == []
    record(fault, case, result)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=str(case),
            marks=() if case.failpoint in LOOKED_UP else pytest.mark.long,
        )
        for case in LOST_ANSWERS
    ],
)
def test_a_commit_without_an_answer_is_looked_up_in_the_ledger(
    case: Case, region: FaultRegion
) -> None:
    prepare(case, region)
    code, words = Broken.start(region, case.program, f"{case.failpoint}=raise@{case.at}").end()
    never_happened = case.failpoint.endswith(".lost") and case.program in (
        "reset",
        "rewind",
        "withhold",
    )
    never_happened |= case.failpoint == "open.commit.lost"
    assert code == (1 if never_happened else 0), words
    if never_happened:
        assert SettleDidNotHappen.__name__ in words
    go_on(case, region)
    assert region.faults_found() == []


def killed(case: Case, region: FaultRegion, _: Postgres, tmp: Path) -> str:
    """SIGKILL at the failpoint; a worker's death is the driver's to survive."""
    in_worker = is_in_worker(case)
    action = f"kill:{tmp / 'killed'}" if in_worker else "kill"
    code, words = Broken.start(region, case.program, f"{case.failpoint}={action}@{case.at}").end()
    assert code == (0 if in_worker else -signal.SIGKILL), words
    if in_worker:
        assert (tmp / "killed").exists(), "the failpoint never fired"
        return "task retried; run green"
    return "killed; next run green"


def postgres_stopped(case: Case, region: FaultRegion, postgres: Postgres, _: Path) -> str:
    """Postgres crashes and recovers while the process stands at the failpoint."""
    broken = Broken.start(region, case.program, f"{case.failpoint}=stop@{case.at}")
    stopped = broken.wait_until_stopped()
    postgres.stop("immediate")
    postgres.start()
    resume(stopped)
    code, words = broken.end()
    late = {OutputTooLarge.exit_code} if "output" in region.settings else set()
    assert code in {0, 1} | late, words  # late: Postgres was away for all of output.max_seconds
    if code == 0:
        return "went on; green"
    named = re.search(r"^([A-Z_]+) \w+: ", words, re.MULTILINE)  # warnings may stand before it
    return f"{named[1] if named else 'failed'}; next run green"


def paused(case: Case, region: FaultRegion, _: Postgres, __: Path) -> str:
    """The process sleeps while others reset the region and run; then it goes on as a zombie."""
    broken = Broken.start(region, case.program, f"{case.failpoint}=stop@{case.at}")
    stopped = broken.wait_until_stopped()
    if case.failpoint in HOLDS_THE_LOCK:
        # Postgres itself ends it: idle_in_transaction_session_timeout. Not waited for here.
        broken.kill()
        return "holds the region lock: ended by its time-out"
    region.reset()
    go_on(case, region)
    resume(stopped)
    code, words = broken.end()
    expected = EXPECTED_OF_ZOMBIES if case.failpoint != "publish.before" else (Fenced.exit_code,)
    assert code in expected, words
    found = region.faults_found()
    # What it had locked could not be dropped; the next run does it, which the test looks at.
    assert [one for one in found if not one.startswith("staging left")] == []
    return {Fenced.exit_code: "fenced", Superseded.exit_code: "superseded"}.get(code, "harmless")


HOLDS_THE_LOCK = {
    f"{name}.{at}"
    for name in (
        "open",
        "plan",
        "publish",
        "close",
        "reset",
        "rewind",
        "replay",
        "withhold",
    )
    for at in ("inside", "claimed", "moved", "removed", "commit.before")
}
EXPECTED_OF_ZOMBIES = (0, 1, Fenced.exit_code, Superseded.exit_code)
BREAK = {
    Fault.killed: killed,
    Fault.postgres_stopped: postgres_stopped,
    Fault.paused: paused,
}


def prepare(case: Case, region: FaultRegion) -> None:
    """A reset meets a run that died in its second batch, a rewind a region of several ones."""
    region.settings["batch"]["in_flight"] = case.in_flight
    if case.mode in ("upsert", "outbox"):
        region.upsert()
    if case.mode == "targets":
        region.several()
    if case.mode in ("output", "outbox"):
        region.send()
    if case.program == "reset":
        leave_a_run_half_done(region)
    elif case.program == "rewind":
        region.run()
    elif case.program == "replay":
        region.narrow()
    elif case.program == "withhold":
        region.publish_unsent()


def go_on(case: Case, region: FaultRegion) -> None:
    """The next run; and after a replay that was broken, a reset and another one."""
    if case.program == "replay":
        region.reset()
        region.replay()
    region.run()


def leave_a_run_half_done(region: FaultRegion) -> None:
    """A batch is staged and not published, its driver is dead."""
    code, words = Broken.start(region, "run", "publish.before=kill@2").end()
    assert code == -signal.SIGKILL, words
