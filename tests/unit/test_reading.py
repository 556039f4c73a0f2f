"""A reading of one span, with a client whose answers arrive as a test wants them."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from tidemark.kafka import reading as reading_module
from tidemark.kafka.spans import read_span
from tidemark.model.offsets import Span


def record(offset: int) -> Message:
    return Message(topic="t", partition=0, offset=offset)


def end_of_partition(offset: int) -> Message:
    error = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic="t", partition=0, offset=offset, error=error)


class Client:
    """A consumer that has everything at once: the records and the end of the partition."""

    def __init__(self, config: Any) -> None:
        self._left = [record(1), record(2), record(9), end_of_partition(13)]

    def consume(self, count: int, timeout: float) -> list[Any]:
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def position(self, partitions: Any) -> list[Any]:
        return [SimpleNamespace(offset=-1001)]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 13

    def assign(self, partitions: Any) -> None: ...

    def close(self) -> None: ...


def test_an_end_that_arrives_beside_records_does_not_hide_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end passes gaps behind the records, never the records."""
    monkeypatch.setattr(reading_module, "Consumer", Client)
    found = [r.offset() for block in read_span({}, Span("t", 0, 1, 13)) for r in block]
    assert found == [1, 2, 9]
