"""Deletions that Kafka's own compaction takes before anybody reads them."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.support.waiting import until
from tests.support.world import World

from tidemark.kafka.spans import read_spans
from tidemark.model.errors import DeletionsMayBeGone
from tidemark.model.offsets import Span
from tidemark.model.overrides import ACCEPT_DATA_LOSS

UPSERT = {
    "decode": {"schema": {"word": "string"}, "metadata": ["key", "tombstone"]},
    "target": {"mode": "upsert", "key": ["kafka_key"], "deleted": "kafka_tombstone"},
}
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "3600000"}
AT_ONCE = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "50",
    "delete.retention.ms": "0",
}


def set_of(admin: AdminClient, kind: ResourceType, name: str, settings: dict[str, str]) -> None:
    """The topic or the brokers have these settings."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)


@pytest.fixture
def cleaning(admin: AdminClient) -> Iterator[None]:
    """The cleaner looks for work ten times a second, not four times a minute."""
    [node] = admin.describe_cluster().result(60).nodes
    set_of(admin, ResourceType.BROKER, str(node.id), {"log.cleaner.backoff.ms": "100"})
    yield
    set_of(admin, ResourceType.BROKER, str(node.id), {"log.cleaner.backoff.ms": "15000"})


@pytest.fixture
def upserting(world: World) -> World:
    """Keys `gone` and `stays` are in the target of a compacted topic."""
    world.settings |= UPSERT
    send(world, "gone", "1")
    send(world, "stays", "1")
    return world


def send(world: World, key: str, word: str | None) -> None:
    producer = Producer({"bootstrap.servers": world.kafka, "linger.ms": 0})
    value = None if word is None else json.dumps({"word": word})
    producer.produce(world.topic, value, key, partition=0)
    assert producer.flush(60) == 0


def keys(world: World) -> list[str]:
    found = world.sql("SELECT convert_from(kafka_key, 'UTF8') FROM public.records ORDER BY 1")
    return [key for (key,) in found]


def rest(world: World, **past: float) -> None:
    """All that the ledger knows is older by so much."""
    world.sql(
        "UPDATE tidemark.runs SET opened_at = opened_at - %s, asked_at = asked_at - %s",
        [timedelta(**past)] * 2,
    )
    world.sql("UPDATE tidemark.partitions SET known_since = known_since - %s", [timedelta(**past)])


def remarks(world: World) -> list[str]:
    """What the newest run found."""
    [(found,)] = world.sql("SELECT remarks FROM tidemark.runs ORDER BY epoch DESC LIMIT 1")
    return list(found)


def test_a_deletion_that_compaction_took_unread_stops_the_run_until_told(
    upserting: World, admin: AdminClient, cleaning: None
) -> None:
    """G151: the log's start has not moved, and the offset is a gap like any other."""
    world = upserting
    world.run("first")
    set_of(admin, ResourceType.TOPIC, world.topic, AT_ONCE)
    send(world, "gone", None)  # offset 2: the region's next one
    config = {"bootstrap.servers": world.kafka}

    def is_taken() -> bool:
        send(world, "other", "x")
        return not [r for some in read_spans(config, [Span(world.topic, 0, 2, 3)]) for r in some]

    until(is_taken, pause=0.1)
    set_of(admin, ResourceType.TOPIC, world.topic, {"delete.retention.ms": "1800000"})
    rest(world, hours=1)  # so that no run is late by its own time
    with pytest.raises(DeletionsMayBeGone) as lost:
        world.open("second")
    [found] = lost.value.waiting
    assert found.span.start == 2
    assert found.kept_ms == 1_800_000
    assert world.ledger_offsets()[world.partition()] == 2
    world.overrides = (ACCEPT_DATA_LOSS,)
    world.run("third")
    assert [one for one in remarks(world) if one.startswith("accepted: deletions in")]
    assert keys(world) == ["gone", "other", "stays"]
    set_of(admin, ResourceType.TOPIC, world.topic, COMPACTED)
    world.overrides = ()
    world.run("fourth")
