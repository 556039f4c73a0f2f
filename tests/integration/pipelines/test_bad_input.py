"""Bad input and bad surroundings: a clear error, its exit code, nothing half-written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.databases import administer
from tests.support.stranger import consumer_beside
from tests.support.topics import create_again
from tests.support.world import World, dump

from tidemark.errors import TidemarkError, Unreachable
from tidemark.kafka.errors import GroupSharesOtherwise, KafkaTopicMissing
from tidemark.model.errors import (
    NextOffsetsNotHeld,
    NotHeld,
    OtherCluster,
    TopicNotThatOfTheLedger,
)
from tidemark.runs import open
from tidemark.settings.connections import Connection
from tidemark.staging.errors import TargetDoesNotFit
from tidemark_local.stack import LocalStack

SECRET = "a-secret-that-no-text-may-hold"

TARGET = '"public"."records"'
E = TypeVar("E", bound=TidemarkError)


@dataclass
class Elsewhere(World):
    """A world whose connections are changed."""

    changes: dict[str, Connection] = field(default_factory=dict)

    @property
    def connections(self) -> dict[str, Connection]:
        return super().connections | self.changes


def elsewhere(world: World, **changes: Any) -> Elsewhere:
    """The same region with a changed warehouse connection, or Kafka's extra."""
    known = world.connections
    kafka, warehouse = known["tidemark_kafka"], known["tidemark_warehouse"]
    if "kafka" in changes:
        kafka = replace(kafka, extra=dict(kafka.extra) | changes.pop("kafka"))
    changed = {"tidemark_kafka": kafka, "tidemark_warehouse": replace(warehouse, **changes)}
    base = (world.kafka, world.warehouse, world.topic, world.region, world.settings)
    return Elsewhere(*base, changes=changed)


def refused(case: type[E], action: Callable[[], Any]) -> E:
    """The action ends in this error, which tells no secret."""
    with pytest.raises(case) as caught:
        action()
    for told in (str(caught.value), repr(caught.value), str(caught.value.fields())):
        assert SECRET not in told
    return caught.value


def test_an_unknown_topic(world: World) -> None:
    world.settings = {"kafka": {"topics": ["no-such-topic"]}}
    assert refused(KafkaTopicMissing, world.open).what == "topic no-such-topic"


def test_a_wrong_password(world: World) -> None:
    broken = elsewhere(world, password=SECRET)
    refused(Unreachable, broken.open)


@contextmanager
def role(stack: LocalStack) -> Iterator[str]:
    """A role that may log in and nothing else."""
    name = f"poor_{uuid4().hex[:12]}"
    administer(stack.postgres, "CREATE ROLE {} LOGIN PASSWORD %(password)s", name, password=SECRET)
    try:
        yield name
    finally:
        administer(stack.postgres, "DROP ROLE {}", name)


def test_a_target_that_does_not_fit_is_refused_before_any_batch(world: World) -> None:
    world.sql("CREATE TABLE public.records (kafka_partition int, batch_seq bigint)")
    world.produce(3)
    world.open()
    error = refused(TargetDoesNotFit, world.drain)
    assert error.target == TARGET
    assert {"kafka_offset", "value"} <= {one.column for one in error.differences}
    assert world.sql("SELECT count(*) FROM tidemark.batches") == [(0,)]


@pytest.mark.long
def test_a_foreign_consumer_that_shares_in_another_way(world: World) -> None:
    """S4: Kafka lets the member in no group whose others share nothing with its strategy."""
    world.produce(3)
    world.open()
    with consumer_beside(world, "range"):
        error = refused(GroupSharesOtherwise, world.drain)
    assert (error.group, error.assignment_strategy) == (world.region, ("cooperative-sticky",))
    world.drain()
    assert world.close().rows == 3


def test_retention_that_has_passed_the_checkpoint(world: World, admin: AdminClient) -> None:
    world.produce(3)
    world.run("first")
    world.produce(5, start=3)
    truncate(admin, world, 6)
    before = dump(world.warehouse)
    error = refused(NextOffsetsNotHeld, lambda: world.open("second"))
    assert error.partitions == (NotHeld(world.partition(), 3, (6, 8)),)
    assert dump(world.warehouse) == before
    assert world.kafka_offsets()[world.partition()] == 3


def truncate(admin: AdminClient, world: World, offset: int) -> None:
    """Retention takes what is below the offset."""
    where = KafkaPartition(world.topic, 0, offset)
    admin.delete_records([where])[where].result(120)


def test_a_topic_that_is_created_again_between_read_and_contribution(
    world: World, admin: AdminClient
) -> None:
    """H13: topic ids are checked once more after reading."""
    world.produce(3)
    world.open()
    world.after = lambda *_: create_again(admin, world.topic)
    error = refused(TopicNotThatOfTheLedger, world.drain)
    assert error.topic == world.topic
    assert error.found_id is not None
    assert world.rows() == []


def test_a_log_that_ends_before_the_ledger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """H14: after an unclean election an end below the ledger looks like no backlog."""
    monkeypatch.setattr(open, "RECHECK_SECONDS", 0)
    world.produce(3)
    world.run("first")
    world.sql("UPDATE tidemark.partitions SET next_offset = 7 WHERE partition = 0")
    error = refused(NextOffsetsNotHeld, lambda: world.open("second"))
    assert error.partitions == (NotHeld(world.partition(), 7, (0, 3)),)


def test_another_cluster(world: World) -> None:
    world.produce(3)
    world.run("first")
    world.sql("UPDATE tidemark.regions SET cluster_id = 'the-first-one'")
    assert refused(OtherCluster, lambda: world.open("second")).known == "the-first-one"
