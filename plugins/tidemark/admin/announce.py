"""What readers of the target are told of a region: the ledger keeps it, whoever tells them.

A close tells, and keeps with its run what it tells; the verdict, which comes after it, confirms it.
So it is told at least once: a close that dies in between is tried again, or the next run tells it
with its own.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from tidemark.errors import Fenced, TidemarkError
from tidemark.kafka.retention import timestamp_type
from tidemark.ledger import periods
from tidemark.ledger.periods import PeriodNews
from tidemark.ledger.queries import PublishedCounts
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.close import Closed
from tidemark.runs.region import Region, region_of
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.sections import CompleteSettings


@dataclass(frozen=True, slots=True)
class News:
    """What readers were not told of."""

    after_seq: int
    """They know of the checkpoints up to this one. After a rewind that is where it went back to."""
    counted: PublishedCounts


def news(pipeline: Pipeline, connections: Connections, closed: Closed) -> News | None:
    """What was published since they were told, whichever runs did it; None if nothing has changed.

    Where a rewind took back what they know of, and nobody told them, that is news without batches.
    """
    with region_of(pipeline, connections) as region:
        after_seq, is_rewound = region.ledger.announced(region.name)
        if closed.checkpoint.seq == after_seq and not is_rewound:
            return None
        return News(after_seq, region.ledger.queries.counted_after(region.name, after_seq))


def announce(pipeline: Pipeline, connections: Connections, *, run_id: str, seq: int) -> None:
    """The ledger knows that the run's close is about to tell of the checkpoints up to this one."""
    with region_of(pipeline, connections) as region:
        region.ledger.announce(region.name, run_id, seq)


@contextmanager
def period_news(
    pipeline: Pipeline, connections: Connections, *, run_id: str
) -> Iterator[PeriodNews | None]:
    """What the run's close tells of periods; None if nothing is new.

    The ledger knows it once the block has ended well: what can't be sent is told by the next close.
    Also None where another epoch holds the region by now: its close tells it.
    """
    with ExitStack() as entered:
        region = entered.enter_context(region_of(pipeline, connections))
        yield _announced(entered, region, pipeline.complete, run_id)


def _announced(
    entered: ExitStack, region: Region, complete: CompleteSettings | None, run_id: str
) -> PeriodNews | None:
    run = region.ledger.run_of(region.name, run_id)
    if run is None or complete is None:
        return None
    timestamps = _timestamps(region, run.epoch)  # Kafka is not asked under the lock
    deciding = region.ledger.deciding(region.name, run.epoch, "announce")
    try:
        tx = entered.enter_context(deciding)
    except Fenced:
        return None
    found = periods.announce(tx.cursor, region.name, run.epoch, complete.calendar())
    return found and replace(found, timestamps=timestamps)


def _timestamps(region: Region, epoch: int) -> str | None:
    topics = {one.topic for one in region.ledger.target_offsets(region.name, epoch)}
    try:
        return timestamp_type(region.kafka, topics)
    except TidemarkError:  # the periods are complete, whatever Kafka answers
        return None


def confirm(pipeline: Pipeline, connections: Connections, *, run_id: str) -> bool:
    """What the run's close was about to tell is told; False where it will be told again.

    That is so where another epoch holds the region by now.
    """
    with region_of(pipeline, connections) as region:
        return region.ledger.confirm_announced(region.name, run_id)


def told_of_rewind(pipeline: Pipeline, connections: Connections, *, epoch: int) -> None:
    """The ledger knows that readers are being told of the rewind that took this epoch."""
    with region_of(pipeline, connections) as region:
        region.ledger.told_of_rewind(region.name, epoch)


def periods_taken_back(pipeline: Pipeline, connections: Connections) -> list[str]:
    """The keys of periods that readers know of, and that a rewind took back."""
    if pipeline.complete is None:
        return []
    calendar = pipeline.complete.calendar()
    with region_of(pipeline, connections) as region, autocommit(region.ledger.engine) as cursor:
        return periods.rewound(cursor, region.name, calendar)
