"""Records for a test: plain, transactional, aborted."""

import json
from collections.abc import Iterable
from uuid import uuid4

from confluent_kafka import Producer
from tests.support.waiting import until

from tidemark.kafka._mirror_writer import connect
from tidemark.kafka.facts import Broker
from tidemark.model.offsets import TopicPartition


def produce(kafka: str, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
    """The values are in the partition when this returns, few of them all at once."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1000})  # flush waits for none
    _send(producer, topic, values, partition)
    assert producer.flush(120) == 0


def produce_transaction(
    kafka: str, topic: str, values: Iterable[bytes], partition: int = 0, *, abort: bool = False
) -> None:
    """The values are there in one transaction, committed or aborted; its marker takes an offset."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    connect(producer)
    producer.init_transactions(120)
    producer.begin_transaction()
    _send(producer, topic, values, partition)
    producer.flush(120)
    producer.abort_transaction(120) if abort else producer.commit_transaction(120)
    broker = Broker({"bootstrap.servers": kafka})
    until(lambda: _is_stable(broker, TopicPartition(topic, partition)))


def _is_stable(broker: Broker, at: TopicPartition) -> bool:
    """Whether all of it can be read: a marker may come behind the answer to its commit."""
    return broker.facts([at.topic]).ends[at] == broker.high_watermarks([at])[at]


def open_transaction(kafka: str, topic: str, partition: int = 0) -> Producer:
    """A producer whose transaction holds one record that Kafka has."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
    connect(producer)
    producer.init_transactions(120)
    producer.begin_transaction()
    _send(producer, topic, numbered(1), partition)
    producer.flush(120)
    return producer


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Good values that tell records apart."""
    return [good(f"value {number}") for number in range(start, start + count)]


def good(text: str) -> bytes:
    """A record's value whose row holds the text."""
    return json.dumps({"value": text}).encode()


def _send(producer: Producer, topic: str, values: Iterable[bytes | None], partition: int) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
        producer.poll(0)
