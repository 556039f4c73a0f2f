"""What a region has sent to its output topic, and what it has not: what status and metrics show."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.ledger.sending import unsent, withheld_seqs
from tidemark.model.offsets import TopicPartition
from tidemark.model.output import Topics
from tidemark.operations.region import Region
from tidemark.operations.status import PartitionStatus
from tidemark.postgres.transaction import autocommit


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """Where the output of a region stands."""

    topics: Topics
    sent_seq: int | None
    """The newest batch in the topic; None: the group's offsets do not say it."""
    unsent_batches: int | None = None
    """Published and not sent."""
    unsent_records: int | None = None
    """What these will send."""
    withheld_seqs: tuple[int, ...] = ()
    """Batches that a person has withheld: the topic has none of their rows."""


def output_status(region: Region, partitions: Iterable[PartitionStatus]) -> OutputStatus | None:
    """What was sent as Kafka tells it, and what the ledger published after it; None if it has none.

    Raises:
        TidemarkError: Kafka can't be asked.
    """
    output = region.group.output
    asked = [TopicPartition(one.topic, one.partition) for one in partitions]
    if output is None or not asked:
        return None
    marks = region.group.sent(asked)
    if len(marks) != 1:
        return OutputStatus(output.topics, None)
    [sent] = marks
    with autocommit(region.ledger.engine) as cursor:
        found = unsent(cursor, region.name, region.pipeline.sent_parts, sent.seq)
        withheld = withheld_seqs(cursor, region.name)
    records = sum(one.records for one in found)
    left = sum(not one.is_withheld for one in found)
    return OutputStatus(output.topics, sent.seq, left, records, tuple(withheld))
