"""What a region has sent to its output topic, and what it has not: what status and metrics show."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.ledger.sending import unsent
from tidemark.model.batch import ONLY
from tidemark.model.offsets import TopicPartition
from tidemark.operations.region import Region
from tidemark.operations.status import PartitionStatus
from tidemark.postgres.transaction import autocommit


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """Where the output of a region stands."""

    topic: str
    sent_seq: int | None
    """The newest batch in the topic; None: the group's offsets do not say it."""
    unsent_batches: int | None = None
    """Published and not sent."""
    unsent_records: int | None = None
    """What these will send."""


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
        return OutputStatus(output.topic, None)
    [sent] = marks
    with autocommit(region.ledger.engine) as cursor:
        found = unsent(cursor, region.name, region.pipeline.sent_target or ONLY, sent.seq)
    return OutputStatus(output.topic, sent.seq, len(found), sum(one.records for one in found))
