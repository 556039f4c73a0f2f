"""Offsets of single records: the one place that counts on from one to the next."""

from confluent_kafka import Message

from tidemark.model.offsets import LogPosition, Span, TopicPartition


def next_offset(record: Message) -> int:
    """The offset to read after this record."""
    return int(record.offset()) + 1


def position_after(record: Message) -> LogPosition | None:
    """Where the log goes on after this record; None if the broker tells no leader epoch."""
    leader_epoch = record.leader_epoch()
    return None if leader_epoch is None else LogPosition(next_offset(record), leader_epoch)


def span_of_one(partition: TopicPartition, offset: int) -> Span:
    """The span of this offset alone."""
    return Span(*partition, offset, offset + 1)
