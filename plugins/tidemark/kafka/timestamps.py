"""A record's timestamp, as the client gives it."""

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

NO_TIMESTAMP = -1
"""In a record batch: its producer gave none (Kafka's RecordBatch.NO_TIMESTAMP)."""


def timestamp_ms(record: Message) -> int | None:
    """Milliseconds since 1970; None where the record has none."""
    kind, milliseconds = record.timestamp()
    is_there = kind != TIMESTAMP_NOT_AVAILABLE and milliseconds != NO_TIMESTAMP
    return int(milliseconds) if is_there else None
