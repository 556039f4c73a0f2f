"""A reading of one span, with a client whose answers arrive as a test wants them."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from tidemark.errors import CorruptRecord
from tidemark.kafka import _client as client_module
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import LogPosition, Span


def record(offset: int) -> Message:
    return Message(topic="t", partition=0, offset=offset)


def end_of_partition(offset: int) -> Message:
    error = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic="t", partition=0, offset=offset, error=error)


class Client:
    """A consumer that has everything at once: the records and the end of the partition."""

    ends: tuple[int, ...] = (13,)
    """Where the log ends, look by look; the last one stays."""

    def __init__(self, config: Any) -> None:
        self._left = [record(1), record(2), record(9), end_of_partition(13)]
        self._ends = list(self.ends)

    def consume(self, count: int, timeout: float) -> list[Any]:
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def position(self, partitions: Any) -> list[Any]:
        return [SimpleNamespace(offset=-1001)]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]

    def assign(self, partitions: Any) -> None: ...

    def unassign(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in ("_KEPT", "_ABANDONED"):
        monkeypatch.setattr(client_module, kept, [])


def test_an_end_that_arrives_beside_records_does_not_hide_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end passes gaps behind the records, never the records."""
    monkeypatch.setattr(client_module, "Consumer", Client)
    assert offsets_read() == [1, 2, 9]


class GoesOn(Client):
    """A consumer that goes on behind a corrupt batch, in the same breath."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        error = KafkaError(KafkaError._BAD_MSG)
        self._left[1] = Message(topic="t", partition=0, offset=2, error=error)


class Jumps(Client):
    """A consumer that was led past the log's end by a batch without records."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._left = [record(1)]

    def position(self, partitions: Any) -> list[Any]:
        return [SimpleNamespace(offset=99)]


@pytest.mark.parametrize("client", [GoesOn, Jumps])
def test_nothing_behind_what_is_corrupt_is_taken_or_passed(
    monkeypatch: pytest.MonkeyPatch, client: type[Client]
) -> None:
    """B16: the client takes offsets from the bytes of a record, or from a batch's first offset."""
    monkeypatch.setattr(client_module, "Consumer", client)
    blocks = read_spans({}, [Span("t", 0, 1, 13)])
    assert [record.offset() for record in next(blocks)] == [1]
    with pytest.raises(CorruptRecord) as corrupt:
        next(blocks)
    assert (corrupt.value.topic, corrupt.value.partition, corrupt.value.offset) == ("t", 0, 2)


class OneByOne(Client):
    """A consumer of a partition whose leader has just been elected: each look brings one thing."""

    def consume(self, count: int, timeout: float) -> list[Any]:
        if len(self._ends) > 1 and self._ends[0] < 1:
            return []  # such a leader gives nothing behind its end
        return super().consume(1, timeout) if timeout else []


LAGS_AT_FIRST, LAGS_LATER = (0, 0, 0, 13), (13, 2, 0, 13)


@pytest.mark.parametrize("ends", [LAGS_AT_FIRST, LAGS_LATER])
@pytest.mark.parametrize("read_up_to", [None, LogPosition(0, 4)])
def test_an_end_that_a_new_leader_tells_too_low_is_no_corruption(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[int, ...], read_up_to: LogPosition | None
) -> None:
    """H14: it lags behind what was read, even behind where the read begins, and catches up."""
    monkeypatch.setattr(client_module, "Consumer", OneByOne)
    monkeypatch.setattr(OneByOne, "ends", ends)
    assert offsets_read(read_up_to) == [1, 2, 9]


def offsets_read(read_up_to: LogPosition | None = None) -> list[int]:
    """The offsets of the span that come."""
    span = Span("t", 0, 1, 13)
    positions = {span.topic_partition: read_up_to} if read_up_to else {}
    found = read_spans({}, [span], read_up_to=positions)
    return [record.offset() for block in found for record in block]


LOSS = Message(
    topic="t", partition=0, offset=1, error=KafkaError(KafkaError._AUTO_OFFSET_RESET)
)  # fmt: skip
"""Retention took what lies before the span, where the client was to begin."""


NOTHING: list[Message] = []


class BehindRetention(Client):
    """A consumer that asked twice from where retention took the records."""

    polls: tuple[list[Message], ...]
    """What each poll brings; the consumer stands behind it until it gives something else."""

    def __init__(self, config: Any) -> None:
        self._polls, self._rest = iter(self.polls), NOTHING
        self._position = -1001

    def consume(self, count: int, timeout: float) -> list[Message]:
        if timeout:
            self._rest = next(self._polls, NOTHING)
        taken, self._rest = self._rest[:count], self._rest[count:]
        if taken:
            self._position = taken[-1].offset() + 1
        return taken

    def position(self, partitions: Any) -> list[Any]:
        return [SimpleNamespace(offset=self._position)]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 3, 13

    def incremental_assign(self, partitions: Any) -> None: ...

    def incremental_unassign(self, partitions: Any) -> None: ...


REST = [record(3), record(4), record(5)]


@pytest.mark.parametrize(
    "polls",
    [
        ([LOSS], REST),
        (NOTHING, [LOSS], REST),
        ([LOSS], NOTHING, [LOSS], NOTHING, REST),
        ([LOSS], [LOSS, *REST], NOTHING, REST),
        ([LOSS], [record(3), LOSS, record(4), record(5)], NOTHING, [record(4), record(5)]),
    ],
)
def test_what_retention_took_before_a_span_is_no_loss_and_hides_no_record(
    monkeypatch: pytest.MonkeyPatch, polls: tuple[list[Message], ...]
) -> None:
    """B7: its answer comes late, or twice; records that came behind it are read again."""
    monkeypatch.setattr(client_module, "Consumer", BehindRetention)
    monkeypatch.setattr(BehindRetention, "polls", polls, raising=False)
    span = Span("t", 0, 3, 6)
    found = read_spans({}, [span], read_up_to={span.topic_partition: LogPosition(1, 0)})
    assert [record.offset() for block in found for record in block] == [3, 4, 5]
