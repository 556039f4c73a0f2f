"""Spans of several partitions in one reading, with a client whose answers come as a test says."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from tidemark.errors import CorruptRecord
from tidemark.kafka import _client as client_module
from tidemark.kafka import spans as reading_module
from tidemark.kafka.config import fetching
from tidemark.kafka.errors import BatchUnreadable, OffsetNotHeld, RecordsNotAsked, SpanNotRead
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import LogPosition, Span, TopicPartition

SPANS = [Span("t", 0, 0, 3), Span("t", 1, 0, 3)]
FIRST, SECOND = (span.topic_partition for span in SPANS)
END = 13
LEADER_EPOCH = 4


def record(partition: int, offset: int, topic: str = "t") -> Message:
    return Message(topic=topic, partition=partition, offset=offset, leader_epoch=LEADER_EPOCH)


def event(code: int, partition: int = -1, offset: int = -1001) -> Message:
    topic = None if partition < 0 else "t"
    return Message(topic=topic, partition=partition, offset=offset, error=KafkaError(code))


class Clock:
    """Time passes while a client waits, and when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """A consumer that gives one list after another; its position is behind what it gave."""

    clock: ClassVar[Clock]
    lists: ClassVar[list[list[Message]]]
    clients: ClassVar[list["Client"]]
    log_start: ClassVar[int]
    delay: ClassVar[float]
    stops_at: ClassVar[dict[int, int]]
    """Positions that it still tells after it was unassigned."""
    is_started: ClassVar[bool]
    left_over: ClassVar[list[Message]]
    """What comes after that."""

    def __init__(self, config: Any) -> None:
        self.config, self.is_closed = config, False
        self.assigned: list[tuple[int, int, int | None]] = []
        self.unassigned: list[int] = []
        self.sought: list[tuple[int, int, int]] = []
        self._ready: list[Message] = []
        self._positions: dict[int, int] = {}
        self.clients.append(self)

    def assign(self, partitions: list[Any]) -> None:
        self.assigned += [(one.partition, one.offset, one.leader_epoch) for one in partitions]

    incremental_assign = assign

    def seek(self, partition: Any) -> None:
        if not self.is_started:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.sought.append((partition.partition, partition.offset, partition.leader_epoch))

    def unassign(self) -> None:
        self._ready, self._positions = list(self.left_over), dict(self.stops_at)

    def incremental_unassign(self, partitions: list[Any]) -> None:
        self.unassigned += [one.partition for one in partitions]

    def consume(self, count: int, timeout: float) -> list[Message]:
        if timeout:
            self._ready = self.lists.pop(0) if self.lists else []
            self.clock.now += self.delay if self._ready else timeout
        taken, self._ready = self._ready[:count], self._ready[count:]
        for one in taken:
            if not one.error():
                self._positions[one.partition()] = one.offset() + 1
        return taken

    def position(self, partitions: list[Any]) -> list[Any]:
        offsets = [self._positions.get(one.partition, -1001) for one in partitions]
        return [SimpleNamespace(offset=offset) for offset in offsets]

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.log_start, END

    def list_topics(self, *_: Any) -> Any:
        partitions = dict.fromkeys(range(9))
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """The clients that were made."""
    Client.clock, Client.lists, Client.clients = Clock(), [], []
    Client.log_start, Client.delay, Client.stops_at = 0, 0.0, {}
    Client.left_over, Client.is_started = [], True
    monkeypatch.setattr(client_module, "Consumer", Client)
    monkeypatch.setattr(reading_module, "monotonic", Client.clock)
    for kept in ("_KEPT", "_ABANDONED"):
        monkeypatch.setattr(client_module, kept, [])
    return Client.clients


def places(**settings: Any) -> Iterator[tuple[int, int]]:
    """Partition and offset of what comes."""
    for records in read_spans({}, SPANS, **settings):
        assert len({one.partition() for one in records}) == 1
        yield from ((one.partition(), one.offset()) for one in records)


ALL = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_records_of_two_partitions_may_come_in_turns(clients: list[Client]) -> None:
    """The client's position is behind all that it gave, also behind what is not looked at yet."""
    Client.lists = [[record(0, 0), record(1, 0), record(0, 1), record(1, 1)]]
    Client.lists += [[record(1, 2), record(0, 2)]]
    assert sorted(places()) == ALL
    (client,) = clients
    assert client.assigned == [(0, 0, None), (1, 0, None)]


@pytest.mark.parametrize("at", range(4))
def test_an_event_of_the_client_takes_no_record_with_it(clients: list[Client], at: int) -> None:
    """G144: it has no topic, and says partition 0 as the records beside it do."""
    code = KafkaError.GROUP_AUTHORIZATION_FAILED
    event_of_none = Message(topic=None, partition=0, error=KafkaError(code))
    first = [record(0, n) for n in range(3)]
    Client.lists = [[*first[:at], event_of_none, *first[at:]], [record(1, n) for n in range(3)]]
    assert sorted(places()) == ALL


def test_a_span_at_its_end_is_let_go_and_nothing_behind_it_is_given(clients: list[Client]) -> None:
    Client.lists = [[record(0, n) for n in range(5)], [record(0, 5)]]
    Client.lists += [[record(1, n) for n in range(9)]]
    assert sorted(places()) == ALL
    assert clients[0].unassigned == [0]


def test_records_that_nobody_asked_for_end_the_read(clients: list[Client]) -> None:
    """G144: what is passed over must not be what was planned, under another name."""
    Client.lists = [[record(0, 0), record(7, 1)]]
    with pytest.raises(RecordsNotAsked) as given:
        [*places()]
    assert (given.value.topic_partition, given.value.records) == (TopicPartition("t", 7), 1)
    assert clients[0].is_closed


def test_two_spans_of_one_partition_are_refused() -> None:
    with pytest.raises(ValueError):
        list(read_spans({}, [Span("t", 0, 0, 3), Span("t", 0, 3, 5)]))


def test_two_batches_that_are_too_large_to_unpack_are_read_with_more_room(
    clients: list[Client],
) -> None:
    """B16, G42: both are met before the room is given; the second one is not corrupt."""
    packed = KafkaError._BAD_COMPRESSION
    Client.lists = [[event(packed, 0, 0), event(packed, 1, 0)]]
    Client.lists += [[record(number, n) for n in range(3)] for number in (0, 1)]
    assert sorted(places(max_unpacked=1 << 20)) == ALL
    assert [one.config.get("receive.message.max.bytes") for one in clients] == [None, 1 << 20]


def test_beside_a_batch_that_is_too_large_to_unpack_the_corrupt_one_is_named(
    clients: list[Client],
) -> None:
    packed = event(KafkaError._BAD_COMPRESSION, 0, 0)
    Client.lists = [[packed, event(KafkaError._BAD_MSG, 1, 0)]]
    with pytest.raises(CorruptRecord) as corrupt:
        list(places(max_unpacked=1 << 20))
    assert corrupt.value.partition == 1


def test_what_is_corrupt_behind_a_span_leaves_the_others_to_another_client(
    clients: list[Client],
) -> None:
    """B16: a client that met it may read no further; another goes on behind the last record."""
    corrupt = event(KafkaError._BAD_MSG, 0, 3)
    Client.lists = [[record(0, 0), record(0, 1), record(0, 2), corrupt, record(1, 0)]]
    Client.lists += [[record(1, 1), record(1, 2)]]
    assert sorted(places()) == ALL
    assert not clients[0].is_closed
    assert clients[1].assigned == [(1, 1, LEADER_EPOCH)]


def test_a_lost_offset_is_named_beside_one_that_reads_on() -> None:
    Client.lists = [[record(0, 0), event(KafkaError._AUTO_OFFSET_RESET, 1), record(0, 1)]]
    with pytest.raises(OffsetNotHeld) as lost:
        list(places())
    assert (lost.value.topic_partition, lost.value.offset) == (SECOND, 0)


def test_an_answer_that_comes_twice_begins_again_behind_what_was_read(
    clients: list[Client],
) -> None:
    """B7, H14: with the epoch of the last record, so that a log that was rewritten is noticed."""
    Client.log_start, begun = 2, {TopicPartition("t", 1): LogPosition(1, LEADER_EPOCH)}
    lost = event(KafkaError._AUTO_OFFSET_RESET, 1, offset=1)
    Client.lists = [[lost], [record(1, 2)], [lost], [record(1, 3)]]
    found = read_spans({}, [Span("t", 1, 2, 4)], read_up_to=begun)
    assert [one.offset() for some in found for one in some] == [2, 3]
    assert clients[0].assigned == [(1, 1, LEADER_EPOCH), (1, 2, None), (1, 3, LEADER_EPOCH)]


def test_an_offset_past_the_logs_end_is_corrupt() -> None:
    """B16: a client that was led astray gives records of nowhere, here in one of two partitions."""
    Client.lists = [[record(0, 0), record(1, END), record(0, 1)]]
    found = places()
    assert [next(found), next(found)] == [(0, 0), (0, 1)]
    with pytest.raises(BatchUnreadable) as corrupt:
        next(found)
    assert (corrupt.value.partition, corrupt.value.offset) == (1, 0)
    assert corrupt.value.cause == f"a record claims offset {END}, but the log ends at {END}"


def test_a_refusal_of_the_client_ends_the_read() -> None:
    Client.lists = [[event(KafkaError._AUTHENTICATION), record(0, 0)]]
    with pytest.raises(SpanNotRead) as refused:
        list(places())
    assert (refused.value.topic_partition, refused.value.offset) == (FIRST, 0)
    assert refused.value.seconds is None


def test_a_span_is_not_silent_while_others_are_busy() -> None:
    """B16: neither the time for which records are not asked for counts, nor that of others."""
    Client.lists, Client.delay = [[record(0, 0)], [record(0, 1)], [record(0, 2)]], 50
    found = places(no_progress_seconds=60)
    for _ in range(3):
        next(found)
        Client.clock.now += 950
    with pytest.raises(SpanNotRead) as silent:
        next(found)
    assert (silent.value.topic_partition, silent.value.offset) == (SECOND, 0)
    assert silent.value.seconds == 60
    assert 3060 <= Client.clock.now <= 3061


def test_a_stuck_partition_is_silent_though_another_comes_now_and_then() -> None:
    Client.lists = [one for n in range(3) for one in ([record(0, n)], *[[]] * 50)]
    found = places(no_progress_seconds=60)
    assert [next(found) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    with pytest.raises(SpanNotRead) as silent:
        next(found)
    assert (silent.value.topic_partition, silent.value.offset) == (SECOND, 0)
    assert 60 <= Client.clock.now <= 61


def test_little_is_fetched_for_small_spans_and_a_connection_decides(
    clients: list[Client],
) -> None:
    small, large = fetching(SPANS), fetching([Span("t", 0, 0, 1_000_000)])
    assert small == {"fetch.message.max.bytes": 69_632, "queued.min.messages": 8}
    assert large == {"fetch.message.max.bytes": 1 << 20, "queued.min.messages": 200_000}
    Client.lists = [[record(*one) for one in ALL]]
    list(read_spans({"queued.min.messages": 7}, SPANS))
    given = {key: clients[0].config[key] for key in small}
    assert given == small | {"queued.min.messages": 7}


def test_a_client_that_has_not_stopped_yet_serves_nobody(clients: list[Client]) -> None:
    """It stops in a thread of its own: its old position would pass records that were not read."""
    Client.stops_at = {1: 3}
    Client.lists = [[record(*one) for one in ALL], [record(*one) for one in ALL]]
    assert [sorted(places()) for _ in range(2)] == [ALL, ALL]
    assert [client.is_closed for client in clients] == [True, False]


@pytest.mark.parametrize(("is_started", "used"), [(True, 1), (False, 2)])
def test_a_client_that_knows_the_leader_seeks_a_position_with_an_epoch(
    clients: list[Client], is_started: bool, used: int
) -> None:
    """B7: KIP-320 is asked only then; a client that can't seek yet serves nobody."""
    Client.lists, Client.is_started = [[record(*one) for one in ALL]] * 2, is_started
    list(places())
    begun = {TopicPartition("t", 1): LogPosition(0, LEADER_EPOCH)}
    assert sorted(places(read_up_to=begun)) == ALL
    assert (len(clients), clients[0].is_closed) == (used, used == 2)
    assert clients[0].sought == ([(1, 0, LEADER_EPOCH)] if is_started else [])


def test_a_client_that_a_parent_process_made_serves_nobody_and_is_left_alone(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no threads here, and its connections are the parent's."""
    Client.lists = [[record(*one) for one in ALL], [record(*one) for one in ALL]]
    list(places())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    list(places())
    assert [client.is_closed for client in clients] == [False, False]


def test_a_client_that_met_something_behind_the_spans_is_left_alone(clients: list[Client]) -> None:
    """B16: a corrupt batch that was fetched ahead: who closes such a client may wait for ever."""
    Client.lists = [[record(*one) for one in ALL]]
    Client.left_over = [event(KafkaError._BAD_MSG, 1, 3)]
    assert sorted(places()) == ALL
    Client.lists, Client.left_over = [[record(*one) for one in ALL]], []
    assert sorted(places()) == ALL
    assert [client.is_closed for client in clients] == [False, False]


@pytest.mark.parametrize("settings", [{"client.id": "other"}, {"queued.min.messages": 7}])
def test_other_settings_are_another_client(clients: list[Client], settings: dict[str, Any]) -> None:
    Client.lists = [[record(*one) for one in ALL], [record(*one) for one in ALL]]
    list(read_spans({}, SPANS))
    list(read_spans(settings, SPANS))
    assert [client.is_closed for client in clients] == [True, False]


def test_complaints_between_two_readings_are_told_to_nobody(clients: list[Client]) -> None:
    Client.lists = [[record(*one) for one in ALL]]
    list(places())
    clients[0].config["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(SpanNotRead) as silent:
        list(places())
    assert silent.value.cause == "no error was reported"
    assert clients[0].is_closed
