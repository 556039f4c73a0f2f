"""What a consumer at read_committed finds in an output topic, read without Tidemark."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from tests.support.region import ONE_BROKER, DrivenRegion

from tidemark.kafka import _mirror_writer as writer_module
from tidemark.kafka._mirror_writer import Sender
from tidemark.postgres.session import try_lock_name
from tidemark.postgres.transaction import autocommit
from tidemark.runs._output import OutputSnapshot
from tidemark.runs._publisher import turn_name


class SentRecord(NamedTuple):
    """One record of the topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    region: str
    seq: int
    epoch: int
    headers: tuple[tuple[str, bytes | None], ...]


def sent_to(kafka: str, topic: str) -> list[SentRecord]:
    """Every record of the topic that is committed, in the order of each partition."""
    return list(_records(kafka, topic))


def _records(kafka: str, topic: str) -> Iterator[SentRecord]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            **ONE_BROKER,
            "group.id": "sent-check",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,  # the last answer is empty, and waits that long
        }
    )
    unread = set(consumer.list_topics(topic, 120).topics[topic].partitions)
    consumer.assign([KafkaPartition(topic, number, OFFSET_BEGINNING) for number in unread])
    while unread:
        message = consumer.poll(120)
        assert message is not None, f"partitions {unread} of {topic} give nothing"
        if message.error():
            unread.discard(message.partition())
            continue
        headers = tuple(message.headers() or ())
        named = {name: value.decode() for name, value in headers[:3]}
        yield SentRecord(
            message.partition(),
            message.key(),
            message.value(),
            named["region"],
            int(named["seq"]),
            int(named["epoch"]),
            headers,
        )
    consumer.close()


@contextmanager
def another_sends(world: DrivenRegion) -> Iterator[None]:
    """Another member of the run sends all the while, as far as one can see: nobody else begins to.

    By their clocks no time passes: they do not find that it takes too long.
    """
    clock, world.clock = world.clock, lambda: 0.0
    ledger = world.ledger()
    name = turn_name(world.region, ledger.epoch(world.region) or 0)
    with autocommit(ledger.engine) as cursor:
        assert try_lock_name(cursor, name)
        yield
        cursor.execute("SELECT pg_advisory_unlock_all()")
    ledger.engine.dispose()
    world.clock = clock


@contextmanager
def too_slow(monkeypatch: pytest.MonkeyPatch, *seqs: int) -> Iterator[None]:
    """Reading the rows of these batches takes an hour, by the clock of whoever sends them."""
    now, records = [0.0], OutputSnapshot.records

    def slow(self: Any, batch: Any) -> Any:
        now[0] += 3600 * (batch.seq in seqs)
        yield from records(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(OutputSnapshot, "records", slow)
        patch.setattr(writer_module, "Sender", partial(Sender, clock=lambda: now[0]))
        yield
