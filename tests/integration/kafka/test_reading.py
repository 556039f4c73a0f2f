"""Spans of many partitions in one reading: each as strict beside the others as it is alone."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.batches import documents
from tests.support.damage import fill, stored_batches
from tests.support.produce import produce
from tests.support.reading import read_apart
from tests.support.waiting import until

from tidemark.errors import CorruptRecord
from tidemark.kafka import _client as client_module
from tidemark.kafka.config import reader_config
from tidemark.kafka.spans import GONE, Reading, read_spans
from tidemark.model.offsets import LogPosition, Span
from tidemark_local.stack import LocalStack

Topic = Callable[..., str]

PARTITIONS, EACH = 30, 5


@pytest.fixture
def many(kafka: str, topic: Topic) -> str:
    """A topic with more in each partition than is asked for."""
    name = topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(kafka, name, documents(2 * EACH), partition)
    return name


def spans(name: str) -> list[Span]:
    """The middle of each partition."""
    return [Span(name, partition, 2, 2 + EACH) for partition in range(PARTITIONS)]


def places(kafka: str, of: Sequence[Span], **settings: object) -> Iterator[tuple[int, int]]:
    """Partition and offset of each record that comes."""
    for records in read_spans({"bootstrap.servers": kafka}, of, **settings):  # type: ignore[arg-type]
        yield from ((one.partition(), one.offset()) for one in records)


def expected(of: Sequence[Span]) -> list[tuple[int, int]]:
    return [(span.partition, offset) for span in of for offset in range(span.start, span.end)]


def test_the_clients_position_moves_by_records_and_by_no_event(kafka: str, topic: Topic) -> None:
    """G144: all that is passed rests on it; older clients counted the end of a partition too."""
    name = topic()
    produce(kafka, name, documents(EACH))
    at = KafkaPartition(name, 0, 0)
    consumer = Consumer(reader_config({"bootstrap.servers": kafka}))
    met = list[Message]()

    def has_ended() -> bool:
        met.extend(consumer.consume(100, 1))
        return any(one.error() for one in met)

    try:
        consumer.assign([at])
        until(has_ended)
        codes = [one.error().code() for one in met if one.error()]
        assert codes == [KafkaError._PARTITION_EOF]
        assert consumer.position([at])[0].offset == len(met) - 1 == EACH
    finally:
        consumer.close()


def test_one_client_reads_all_spans_and_nothing_beside_them(
    kafka: str, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    def consumer(config: dict[str, Any]) -> Consumer:
        made.append(config)
        return Consumer(config)

    monkeypatch.setattr(client_module, "_KEPT", [])
    monkeypatch.setattr(client_module, "Consumer", consumer)
    found = list(places(kafka, spans(many)))
    assert sorted(found) == expected(spans(many))
    for partition in range(PARTITIONS):
        offsets = [offset for one, offset in found if one == partition]
        assert offsets == sorted(offsets)
    assert len(made) == 1


@pytest.mark.long
def test_retention_that_took_what_lies_before_spans_is_no_loss(
    kafka: str, many: str, admin: AdminClient
) -> None:
    """B7: of some of them only, as when markers lay between two batches."""
    gone = [KafkaPartition(many, partition, 2) for partition in range(0, PARTITIONS, 3)]
    for done in admin.delete_records(gone).values():
        done.result(60)
    begun = {span.topic_partition: LogPosition(1, 0) for span in spans(many)}
    assert sorted(places(kafka, spans(many), read_up_to=begun)) == expected(spans(many))


@pytest.mark.long
def test_retention_before_spans_is_no_loss_though_the_answer_comes_late(
    kafka: str, many: str, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B7: a poll without an answer takes it that the log was there up to the span."""
    take, polls = Reading._take, count()
    monkeypatch.setattr(Reading, "_take", lambda one: take(one) if next(polls) else [])
    test_retention_that_took_what_lies_before_spans_is_no_loss(kafka, many, admin)


@pytest.mark.long
@pytest.mark.parametrize("is_before_records", [False, True])
def test_a_second_answer_from_a_position_that_was_left_is_no_loss(
    kafka: str,
    many: str,
    admin: AdminClient,
    monkeypatch: pytest.MonkeyPatch,
    is_before_records: bool,
) -> None:
    """B7: the client had asked twice before it heard that retention took what it asked for.

    Records that came behind it in one list are read again, and none is passed over.
    """
    take, again = Reading._take, list[Message]()

    def take_twice(reading: Reading) -> list[Message]:
        taken = take(reading)
        come = {one.partition() for one in taken if one.error() is None}
        late = [one for one in again if one.partition() in come or not is_before_records]
        again[:] = [one for one in again if one not in late] + list(filter(is_loss, taken))
        return [*late, *taken]

    monkeypatch.setattr(Reading, "_take", take_twice)
    test_retention_that_took_what_lies_before_spans_is_no_loss(kafka, many, admin)


def is_loss(message: Message) -> bool:
    """Whether it tells that Kafka does not hold what was asked for."""
    error = message.error()
    return error is not None and error.code() in GONE


@pytest.mark.long
@pytest.mark.parametrize(("end", "is_met"), [(40, True), (20, False)])
def test_a_corrupt_batch_in_one_of_many_partitions(
    stack: LocalStack, kafka: str, topic: Topic, end: int, is_met: bool
) -> None:
    """B16: within its span it is named; right behind it, it stops nobody."""
    name = topic(partitions=8)
    fill(kafka, name)
    for partition in range(1, 8):
        produce(kafka, name, documents(20_000), partition)
    stored_batches(stack, name)[2].flip(-3)
    others = [Span(name, partition, 0, 20_000) for partition in range(1, 8)]
    offsets, error = read_apart(kafka, Span(name, 0, 0, end), *others)
    if is_met:
        assert isinstance(error, CorruptRecord)
        assert (error.topic, error.partition, error.offset) == (name, 0, 20)
    else:
        assert (error, len(offsets)) == (None, 7 * 20_000 + 20)
