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
from tests.support.filled import copied
from tests.support.produce import good, produce
from tests.support.stranger import consumer_beside
from tests.support.topics import create_again
from tests.support.world import World, dump

from tidemark.errors import TidemarkError, Unreachable
from tidemark.kafka.errors import GroupSharesOtherwise, KafkaTopicMissing, OffsetNotHeld
from tidemark.model.errors import (
    BoundOutOfRange,
    NextOffsetsNotHeld,
    NotHeld,
    OtherCluster,
    TopicNotThatOfTheLedger,
)
from tidemark.postgres.errors import PostgresRightMissing
from tidemark.runs import open
from tidemark.settings.connections import Connection
from tidemark.staging.errors import RowRefused, TargetDoesNotFit, TargetMayNotBeWritten
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


def test_an_unreachable_broker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.kafka import admin, facts

    for module in (admin, facts):
        monkeypatch.setattr(module, "SECONDS", 2, raising=False)
    broken = elsewhere(world, kafka={"bootstrap.servers": "127.0.0.1:1", "sasl.password": SECRET})
    refused(Unreachable, broken.open)


def test_an_unreachable_postgres(world: World) -> None:
    broken = elsewhere(world, port=1, password=SECRET)
    refused(Unreachable, broken.open)


def test_a_wrong_password(world: World) -> None:
    broken = elsewhere(world, password=SECRET)
    refused(Unreachable, broken.open)


def test_a_database_that_is_not_there(world: World) -> None:
    broken = elsewhere(world, schema="no_such_database")
    refused(Unreachable, broken.open)


def test_a_role_without_any_grant(world: World, stack: LocalStack) -> None:
    with copied(stack) as empty, role(stack) as name:
        poor = elsewhere(replace(world, warehouse=empty), login=name, password=SECRET)
        refused(PostgresRightMissing, poor.open)
        assert dump(empty)["tables"] == []


def test_a_role_that_may_not_write_the_target(world: World, stack: LocalStack) -> None:
    world.produce(3)
    world.run("first")
    world.produce(3, start=3)
    with role(stack) as name, granted(world, name):
        poor = elsewhere(world, login=name, password=SECRET)
        poor.open("second")
        error = refused(TargetMayNotBeWritten, lambda: poor.drain("second"))
    assert (error.target, error.user) == (TARGET, name)
    assert (error.is_usage_missing, error.is_insert_missing) == (False, True)
    assert len(world.rows()) == 3


@contextmanager
def granted(world: World, name: str) -> Iterator[None]:
    """The role has all rights on the ledger and none on the target."""
    rights = ["TABLES IN SCHEMA tidemark", "SEQUENCES IN SCHEMA tidemark"]
    world.sql(f"GRANT USAGE, CREATE ON SCHEMA tidemark, tidemark_staging TO {name}")
    for right in rights:
        world.sql(f"GRANT ALL ON ALL {right} TO {name}")
    try:
        yield
    finally:
        world.sql(f"REVOKE ALL ON SCHEMA tidemark, tidemark_staging FROM {name}")
        for right in rights:
            world.sql(f"REVOKE ALL ON ALL {right} FROM {name}")


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


@pytest.mark.parametrize(
    "constraint",
    [
        pytest.param("CHECK (kafka_offset < 2)", marks=pytest.mark.long),
        pytest.param("UNIQUE (kafka_partition)", marks=pytest.mark.long),
        "CHECK (value <> 'x')",
    ],
)
def test_a_target_that_refuses_a_row(world: World, constraint: str) -> None:
    """The text names the constraint and quotes nothing of the row."""
    world.produce(1)
    world.run("first")
    produce(world.kafka, world.topic, [good("x"), good(SECRET)])
    world.sql(f"ALTER TABLE public.records ADD CONSTRAINT the_guard {constraint}")
    world.open("second")
    error = refused(RowRefused, lambda: world.drain("second"))
    assert error.targets == (TARGET,)
    assert error.names["constraint"] == "the_guard"
    assert (world.rows(), world.ledger_offsets()[world.partition()]) == ([(0, 0)], 1)
    world.sql("ALTER TABLE public.records DROP CONSTRAINT the_guard")
    world.reset("second")
    world.run("third")
    assert len(world.rows()) == 3


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


def test_retention_that_passes_while_a_batch_is_read(world: World, admin: AdminClient) -> None:
    world.produce(5)
    world.open()
    world.before = lambda *_: truncate(admin, world, 2)
    error = refused(OffsetNotHeld, world.drain)
    assert (error.topic_partition, error.offset) == (world.partition(), 0)
    assert world.rows() == []


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


def test_a_bound_that_is_not_positive(world: World) -> None:
    with pytest.raises(BoundOutOfRange) as refused:
        world.open(max_records=0)
    assert (refused.value.name, refused.value.value) == ("max_records", 0)
