"""Judge a region by its ledger and Kafka: one level, one sentence, one remedy.

Who knows more, as the pages know Airflow's runs, adds to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from tidemark.errors import DataLost, Refused, RunNotDone, by_code
from tidemark.ledger.starts import Starts
from tidemark.model.plain import amount
from tidemark.views.status import OutputStatus, RegionStatus, brief


class Level(StrEnum):
    """How a region is, the worst first."""

    red = "red"
    unknown = "unknown"
    behind = "behind"
    new = "new"
    running = "running"
    well = "well"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Level).index(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said first of a region."""

    level: Level
    sentence: str
    remedy: str = ""
    code: str | None = None


def worst(found: Iterable[Verdict]) -> Verdict:
    """The worst of what is known; of two that are as bad the first."""
    return min(found, key=lambda one: one.level.rank)


def remedy(code: str | None) -> str:
    """What to do about the error, in Markdown; of a code that is not ours its log tells more."""
    known = by_code()
    return known[code].hint if code in known else "Read its log."


TaskError = tuple[str | None, str | None]
"""The task that failed and its error's code, where they are known."""

RUN_NOT_DONE: TaskError = (None, RunNotDone.code)


class OpenedRegion(Protocol):
    """A region that has opened before, as the ledger tells it."""

    @property
    def state(self) -> str:
        """Of its newest run."""

    @property
    def head_seq(self) -> int | None:
        """The newest checkpoint."""

    @property
    def consecutive_resets(self) -> int | None:
        """In a row, by which nothing was published; a reset by hand begins anew with 0."""

    @property
    def run_id(self) -> str | None:
        """Of its newest run."""

    @property
    def run_state(self) -> str | None:
        """How that one ended: closed, failed, superseded; or open."""

    @property
    def reason(self) -> str | None:
        """Why that one ended without a close."""


def verdict_of(found: RegionStatus) -> Verdict:
    """Of a region by its status."""
    return worst(_of_status(found))


def _of_status(found: RegionStatus) -> Iterator[Verdict]:
    if found.problem:
        yield Verdict(Level.unknown, found.problem)
    yield from of_starts(found.starts)
    if found.max_consecutive_resets is None:
        yield never_opened(found.lag)
        return
    known = "not known" if found.lag is None else amount(found.lag, "offset")
    left = f"the lag is {known}"
    yield from of_ledger(found, found.max_consecutive_resets, left, waits=found.lag)
    if not found.is_open:
        yield from at_rest(found.drifting, found.short)
        if found.output and found.head_seq:
            yield from _of_output(found.output)


def _of_output(output: OutputStatus) -> Iterator[Verdict]:
    """Of a region at rest that has published."""
    if output.sent_seq is None and not output.is_said:
        yield Verdict(
            Level.red,
            f"What was sent to {output.topics.named} is not known.",
            "Set `output.resume_after` in the pipeline file to the last batch that was sent, or"
            " `output.start` if none ever was, and start a run: see docs/output.md.",
            Refused.code,
        )
    if output.unsent_batches:
        are = "is" if output.unsent_batches == 1 else "are"
        yield Verdict(
            Level.behind,
            f"{amount(output.unsent_batches, 'batch')} {are} published and not sent.",
            "`tidemark mirror` sends what is left; the next run does so too.",
        )


def never_opened(lag: int | None) -> Verdict:
    """Of a region without a run; `lag` is in records, if it is known."""
    waits = f": {waiting(lag)}" if lag else ""
    return Verdict(Level.new, f"It has not run yet{waits}.", "Start its first run.")


def of_ledger(
    found: OpenedRegion,
    max_resets: int,
    left: str,
    waits: int | None = None,
    error: TaskError = RUN_NOT_DONE,
) -> Iterator[Verdict]:
    """Of a region at rest or at work.

    `left` says what its run has still to do, `waits` how many records the next one will find,
    `error` what its run failed with, if it has.
    """
    resets = found.consecutive_resets or 0
    if resets >= max_resets:
        yield Verdict(
            Level.red,
            f"{amount(resets, 'reset')} in a row: no run opens any more.",
            "Correct what the failed runs named, then reset by hand: to the last checkpoint, with"
            " Apply. That keeps all rows.",
            Refused.code,
        )
    if has_failed(found):
        later = " It was reset." if found.state == "reset" else ""
        yield failed(f"{found.run_id}", f"{found.reason or 'it did not close'}.{later}", error)
    if found.state == "open":
        yield Verdict(Level.running, f"A run is on: {left}.")
    later = f"; {waiting(waits)} for the next run" if waits else ""
    yield Verdict(Level.well, f"All is published up to checkpoint {found.head_seq}{later}.")


def has_failed(found: OpenedRegion) -> bool:
    """Whether its newest run ended without a close, and nobody has reset it by hand since."""
    was_reset = found.state == "reset" and bool(found.consecutive_resets)
    return found.state == "failed" or (was_reset and found.run_state != "closed")


def failed(run_id: str, reason: str, error: TaskError = RUN_NOT_DONE) -> Verdict:
    """Of a run that failed; `reason` is a sentence."""
    task, code = error
    where = f" in the task {task}" if task else ""
    sentence = f"The newest run failed{where} ({run_id}): {reason}"
    return Verdict(Level.red, sentence, remedy(code), code)


def of_starts(found: Starts) -> Iterator[Verdict]:
    """Of a region whose newest open was refused, or whose doorbell can't look."""
    if (one := found.refused) is not None:
        yield Verdict(
            Level.red,
            f"The newest open was refused ({one.run_id}, {_moment(one.at)}): {one.code},"
            f" {one.case}.",
            remedy(one.code),
            one.code,
        )
    if (bell := found.doorbell) is not None and bell.code and not bell.is_old:
        yield Verdict(
            Level.behind,
            f"The doorbell can't look since {_moment(bell.since)}: {bell.code}, {bell.case}."
            " Runs start by the schedule's floor alone.",
            f"{remedy(bell.code)} The triggerer's log says more.",
            bell.code,
        )


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def at_rest(drifting: int | None, short: Sequence[str]) -> Iterator[Verdict]:
    """Of a region at rest, by what Kafka tells; `short` names partitions."""
    if short:
        yield log_is_short(short)
    if drifting:
        yield drifted(drifting)


def log_is_short(places: Sequence[str]) -> Verdict:
    """Of a region at rest whose ledger is ahead of Kafka in these partitions.

    After another leader was elected it may be so for a moment, which is why a run looks again.
    """
    sentence = f"In Kafka the log of {brief(places)} ends before the ledger's offset."
    return Verdict(Level.red, sentence, remedy(DataLost.code), DataLost.code)


def drifted(drifting: int) -> Verdict:
    """Of a region at rest in so many partitions of which Kafka's offset is not the ledger's."""
    return Verdict(
        Level.behind,
        f"Kafka's group offset is not the ledger's in {amount(drifting, 'partition')}.",
        "`tidemark mirror` writes the ledger's offsets to Kafka; the next run does so too.",
    )


def waiting(lag: int) -> str:
    """How many records wait, in words."""
    return f"{amount(lag, 'record')} {'waits' if lag == 1 else 'wait'}"
