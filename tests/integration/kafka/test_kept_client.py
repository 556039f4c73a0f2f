"""Readings one after the other with the same client: each is as exact as with a new one."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.batches import documents
from tests.support.produce import produce
from tests.support.topics import create_again
from tests.support.waiting import until

from tidemark.kafka import _client as client_module
from tidemark.kafka.errors import OffsetNotHeld
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import LogPosition, Span

Topic = Callable[..., str]

LOG = 30_000
"""Records in a partition: more than a reading of a few fetches ahead."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The consumers that are made; none is there before."""
    monkeypatch.setattr(client_module, "_KEPT", [])
    made: list[object] = []

    def consumer(config: dict[str, Any]) -> Consumer:
        made.append(config)
        return Consumer(config)

    monkeypatch.setattr(client_module, "Consumer", consumer)
    return made


@pytest.fixture
def name(kafka: str, topic: Topic) -> str:
    """A topic whose two partitions hold more than is asked for."""
    name = topic(partitions=2)
    for partition in range(2):
        produce(kafka, name, documents(LOG), partition)
    return name


def offsets(kafka: str, *spans: Span, **settings: object) -> list[tuple[int, int]]:
    """Partition and offset of each record that comes, in the order of each partition.

    A client that was kept has come to rest: one that has not is left to nobody.
    """
    config = {"bootstrap.servers": kafka}
    lists = read_spans(config, spans, **settings)  # type: ignore[arg-type]
    found = [(one.partition(), one.offset()) for records in lists for one in records]
    until(lambda: all(is_at_rest(kept.consumer, spans) for kept in client_module._KEPT))
    return sorted(found, key=lambda place: place[0])


def is_at_rest(consumer: Consumer, spans: Sequence[Span]) -> bool:
    """Whether it has stopped: until then it tells where the last reading stood."""
    begins = [KafkaPartition(*span.topic_partition) for span in spans]
    return all(one.offset == OFFSET_INVALID for one in consumer.position(begins))


def whole(*spans: Span) -> list[tuple[int, int]]:
    return [(span.partition, offset) for span in spans for offset in range(span.start, span.end)]


@pytest.mark.parametrize(
    "starts",
    [
        (100, 0),
        (0, 0),
        (10, 25_000),
        pytest.param((0, 100), marks=pytest.mark.long),
        pytest.param((25_000, 10), marks=pytest.mark.long),
    ],
)
def test_a_reading_gives_its_records_and_none_that_the_one_before_had_fetched(
    kafka: str, name: str, made: list[object], starts: tuple[int, int]
) -> None:
    """Of the same partitions at an earlier, the same and a later offset."""
    for start in starts * 3:
        spans = [Span(name, partition, start, start + 50) for partition in range(2)]
        assert offsets(kafka, *spans) == whole(*spans)
    assert len(made) == 1


def test_a_reading_that_is_left_early_leaves_its_client_to_nobody(
    kafka: str, name: str, made: list[object]
) -> None:
    """A task that is killed by its transform."""
    lists = read_spans({"bootstrap.servers": kafka}, [Span(name, 0, 0, LOG)])
    next(lists)
    assert isinstance(lists, Generator)
    lists.close()
    span = Span(name, 0, 5, 10)
    assert offsets(kafka, span) == whole(span)
    assert len(made) == 2


@pytest.mark.long
def test_what_retention_took_since_the_last_reading_is_lost(
    kafka: str, name: str, made: list[object], admin: AdminClient
) -> None:
    """B7: though the client had fetched it."""
    assert offsets(kafka, Span(name, 0, 0, 5)) == whole(Span(name, 0, 0, 5))
    admin.delete_records([KafkaPartition(name, 0, 10)])[KafkaPartition(name, 0)].result(120)
    with pytest.raises(OffsetNotHeld) as lost:
        offsets(kafka, Span(name, 0, 5, 12))
    assert (lost.value.offset, lost.value.log_range) == (5, (10, LOG))
    assert len(made) == 1


@pytest.mark.long
def test_a_topic_that_was_created_again_since_the_last_reading_is_lost(
    kafka: str, name: str, made: list[object], admin: AdminClient
) -> None:
    """Though the client had fetched what the old one held."""
    assert offsets(kafka, Span(name, 0, 0, 5)) == whole(Span(name, 0, 0, 5))
    create_again(admin, name)
    produce(kafka, name, documents(3))
    with pytest.raises(OffsetNotHeld) as lost:
        offsets(kafka, Span(name, 0, 5, 12))
    assert (lost.value.offset, lost.value.log_range) == (5, (0, 3))
    assert len(made) == 1


@pytest.mark.parametrize("epoch", [0, 9])
def test_a_log_that_was_rewritten_is_noticed_by_each_reading(
    kafka: str, name: str, made: list[object], epoch: int
) -> None:
    """B7: an epoch of the position that the log does not know (KIP-320)."""
    begin, after = Span(name, 0, 0, 5), Span(name, 0, 5, 10)
    assert offsets(kafka, begin) == whole(begin)
    told = {after.topic_partition: LogPosition(5, epoch)}
    if epoch:
        with pytest.raises(OffsetNotHeld) as lost:
            offsets(kafka, after, read_up_to=told)
        assert (lost.value.offset, lost.value.log_range) == (5, (0, LOG))
    else:
        assert offsets(kafka, after, read_up_to=told) == whole(after)
    assert len(made) == 1
