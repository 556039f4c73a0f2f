"""A record as a test writes it down."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

Value = bytes | str | Mapping[str, Any] | None
"""Bytes as they are, a text in UTF-8, a mapping as a JSON object; None is a tombstone."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic; what a test does not say is usual."""

    value: Value
    key: Value = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = 1_700_000_000_000
    """None: a record of before timestamps."""
    topic: str | None = None
    """None: the first topic that the pipeline reads."""
    partition: int = 0
    offset: int | None = None
    """None: its index among the records of the test."""

    def message(self, topic: str, index: int) -> Message:
        """The record as the Kafka client gives it."""
        is_timed = self.timestamp_ms is not None
        kind = TIMESTAMP_CREATE_TIME if is_timed else TIMESTAMP_NOT_AVAILABLE
        return Message(
            topic=self.topic or topic,
            partition=self.partition,
            offset=index if self.offset is None else self.offset,
            key=_bytes_of(self.key),
            value=_bytes_of(self.value),
            headers=list(self.headers),
            timestamp=(kind, self.timestamp_ms or 0),
        )


def record_of(given: Record | Value) -> Record:
    """The record that was given, or one of this value."""
    return given if isinstance(given, Record) else Record(given)


def _bytes_of(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode()
