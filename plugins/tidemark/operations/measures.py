"""A region as its metrics tell it: its status, and what else of the ledger and Kafka is counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.errors import TidemarkError
from tidemark.ledger.looks import Durations, Hidden, Looks, Measured
from tidemark.ledger.timeline import Timeline
from tidemark.model.offsets import TopicPartition
from tidemark.model.state import Mirrored
from tidemark.operations.region import Region
from tidemark.operations.status import RegionStatus
from tidemark.operations.unread import oldest_times

MOST_LETTERS = 100_000
"""Of these so many, the newest, the reasons are counted."""

MOST_REASONS = 10


@dataclass(frozen=True, slots=True)
class InLedger:
    """What the ledger keeps beside the status."""

    durations: Sequence[Durations]
    letters: Mapping[str, int]
    """Dead letters that wait, by the commonest reasons."""
    runs: Mapping[str, int]
    retries: int
    hidden: Hidden


@dataclass(frozen=True, slots=True)
class Measures:
    """One region; what could not be asked is empty or None."""

    status: RegionStatus
    in_ledger: InLedger | None = None
    oldest: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where there is a lag, the time (ms) of the first unread record, if it is known."""
    mirrored_seq: int | None = None
    """The checkpoint that Kafka's group offsets were written for."""


def measures_of(region: Region, status: RegionStatus) -> Measures:
    """What is counted of a region with this status.

    Raises:
        TidemarkError: the ledger can't be asked.
    """
    if status.epoch is None:
        return Measures(status)
    kept, name = Measured(region.ledger.engine), region.name
    reasons = Timeline(region.ledger.engine).reasons_of_newest(name, MOST_LETTERS, MOST_REASONS)
    counted = InLedger(
        kept.durations(name),
        {one.reason: one.count for one in reasons},
        kept.recent_runs(name),
        kept.recent_retries(name),
        kept.hidden(name),
    )
    if status.problem:  # Kafka was silent a moment ago
        return Measures(status, counted)
    try:
        return Measures(status, counted, _oldest(region, status), _mirrored_seq(region, status))
    except TidemarkError:
        return Measures(status, counted)


def _oldest(region: Region, status: RegionStatus) -> dict[TopicPartition, int]:
    now_ms = int(Looks(region.ledger.engine).now().timestamp() * 1000)
    return oldest_times(region.broker, status.partitions, now_ms)


def _mirrored_seq(region: Region, status: RegionStatus) -> int | None:
    asked = [TopicPartition(one.topic, one.partition) for one in status.partitions]
    found = region.group.committed_metadata(asked).values() if asked else ()
    return max((Mirrored.parse(metadata).seq for _, metadata in found), default=None)
