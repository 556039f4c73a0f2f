"""What waits in Kafka for a region: looks that decide nothing but when to ring for a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemark.kafka.facts import Broker, oldest_unread
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.looks import Looks
from tidemark.model.offsets import TopicPartition
from tidemark.operations.status import PartitionStatus

OLDEST_SECONDS = 1.0
"""How long the oldest unread records of a region are looked for."""


@dataclass(frozen=True, slots=True)
class Unread:
    """How many offsets a region has not passed, and whether a run should come for them."""

    epoch: int
    """The region's; 0 before its first open."""
    offsets: int
    """Between the ledger's offsets and the last stable offsets."""
    is_at_rest: bool
    """It never opened, or nobody is at work in it, and its newest run did not fail."""


def unread(ledger: Ledger, broker: Broker, region: str, topics: Sequence[str]) -> Unread:
    """What waits in these topics, or in those that a pattern matches.

    Raises:
        TidemarkError: ledger or Kafka can't be asked, or a topic does not exist.
    """
    state = ledger.known_region(region)
    read = ledger.merged_checkpoint(region).offsets if state else {}
    facts = broker.facts(broker.topics(topics))
    waiting = sum(
        max(0, end - read.get(partition, facts.log_starts[partition]))
        for partition, end in facts.ends.items()
    )
    is_at_rest = state is None or Looks(ledger.engine).awaits_run(region)
    return Unread(state.epoch if state else 0, waiting, is_at_rest)


def oldest_times(
    broker: Broker, partitions: Iterable[PartitionStatus], now_ms: int
) -> dict[TopicPartition, int]:
    """Where there is a lag, the time (ms) of the first unread record, if it is known."""
    behind = {TopicPartition(one.topic, one.partition): one.ledger for one in partitions if one.lag}
    return oldest_unread(
        lambda times: broker.first_since(times, OLDEST_SECONDS), behind, now_ms, OLDEST_SECONDS
    )


def oldest_age(broker: Broker, partitions: Iterable[PartitionStatus], now_ms: int) -> float | None:
    """Seconds since the oldest unread record was produced; None if there is none, or not known."""
    found = oldest_times(broker, partitions, now_ms)
    return max(0, now_ms - min(found.values())) / 1000 if found else None
