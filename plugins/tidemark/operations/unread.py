"""What waits in Kafka for a region: a look that decides nothing but when to ring for a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.kafka.facts import Broker
from tidemark.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Unread:
    """How many offsets a region has not passed, and whether a run should come for them."""

    epoch: int
    """The region's; 0 before its first open."""
    offsets: int
    """Between the ledger's offsets and the last stable offsets."""
    is_at_rest: bool
    """It never opened, or its newest run is done: no run is at work, and none failed."""


def unread(ledger: Ledger, broker: Broker, region: str, topics: Sequence[str]) -> Unread:
    """What waits in these topics, or in those that a pattern matches.

    Raises:
        TidemarkError: ledger or Kafka can't be asked, or a topic does not exist.
    """
    state = ledger.known_region(region)
    run = ledger.run_at(region, state.epoch) if state else None
    read = ledger.merged_checkpoint(region).offsets if state else {}
    facts = broker.facts(broker.topics(topics))
    waiting = sum(
        max(0, end - read.get(partition, facts.log_starts[partition]))
        for partition, end in facts.ends.items()
    )
    is_at_rest = state is None or (run is not None and run.state == "closed")
    return Unread(state.epoch if state else 0, waiting, is_at_rest)
