"""The oldest unread record's time, found by a real broker's answers alone."""

import time
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Producer
from tests.support.produce import numbered, produce_transaction

from tidemark.kafka.facts import Broker, oldest_unread
from tidemark.kafka.retention import oldest_timestamp
from tidemark.model.offsets import Span, TopicPartition

AGES = [7 * 24 * 3600, 7200, 3600, 3599, 60, 10, 3]
"""Seconds; each record's."""


@pytest.fixture
def aged(kafka: str, topic: Callable[..., str]) -> tuple[Broker, TopicPartition, int]:
    """A partition with a record of each age, and the time that they are of."""
    name, now_ms = topic(1), int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": kafka})
    for age in AGES:
        producer.produce(name, b"x", partition=0, timestamp=now_ms - age * 1000)
        assert producer.flush(60) == 0
    return Broker({"bootstrap.servers": kafka}), TopicPartition(name, 0), now_ms


def test_each_record_is_found_by_its_time(aged: tuple[Broker, TopicPartition, int]) -> None:
    """B22: in few looks, however old it is; with no time to search none is."""
    broker, where, now_ms = aged
    for offset, age in enumerate(AGES):
        looks: list[int] = []

        def first_since(
            times: Mapping[TopicPartition, int], looks: list[int] = looks
        ) -> dict[TopicPartition, tuple[int, int]]:
            looks.append(len(times))
            return broker.first_since(times, 10)

        found = oldest_unread(first_since, {where: offset}, now_ms, 120)
        assert found == {where: now_ms - age * 1000}
        assert len(looks) < 40
    assert oldest_unread(lambda t: broker.first_since(t, 10), {where: 0}, now_ms, 0) == {}


@pytest.mark.long
def test_a_gap_before_it_is_passed(kafka: str, topic: Callable[..., str]) -> None:
    """B22: markers and aborted records have offsets and are no records."""
    name = topic(1)
    produce_transaction(kafka, name, numbered(3), 0)  # 0-2, marker at 3
    produce_transaction(kafka, name, numbered(2), 0, abort=True)
    later = int(time.time() * 1000) + 60_000  # than the time of each of these
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(name, b"x", partition=0, timestamp=later)
    assert producer.flush(60) == 0
    broker, where = Broker({"bootstrap.servers": kafka}), TopicPartition(name, 0)
    found = oldest_unread(lambda t: broker.first_since(t, 10), {where: 7}, later + 1, 120)
    assert found == {where: later}


@pytest.mark.long
def test_a_read_record_of_a_time_to_come_leaves_it_unknown(
    kafka: str, aged: tuple[Broker, TopicPartition, int]
) -> None:
    """B22: no time is made up."""
    broker, where, now_ms = aged
    producer = Producer({"bootstrap.servers": kafka})
    for seconds in (600, 1):
        producer.produce(where.topic, b"x", timestamp=now_ms + seconds * 1000)
    assert producer.flush(60) == 0
    found = oldest_unread(
        lambda times: broker.first_since(times, 10), {where: len(AGES) + 1}, now_ms, 120
    )
    assert found == {}


def test_records_without_a_timestamp_have_no_age(kafka: str, topic: Callable[..., str]) -> None:
    """G155: Kafka's -1 is no time."""
    name, now_ms = topic(1), int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": kafka})
    for _ in range(3):
        producer.produce(name, b"x", partition=0, timestamp=-1)
    assert producer.flush(60) == 0
    config, where = {"bootstrap.servers": kafka}, TopicPartition(name, 0)
    for offset in (0, 2):
        found = oldest_unread(
            lambda t: Broker(config).first_since(t, 10), {where: offset}, now_ms, 120
        )
        assert found == {}
    assert oldest_timestamp(config, Span(*where, 1, 3)) is None
