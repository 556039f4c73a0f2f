"""Bad input and bad surroundings: a clear error, its exit code, nothing half-written."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.databases import administer
from tests.support.executor import LocalExecutor
from tests.support.produce import good, produce
from tests.support.stranger import consumer_beside, holder_beside
from tests.support.topics import create_again
from tests.support.world import World, dump

from tidemark.errors import (
    DataLost,
    Fenced,
    InvalidSettings,
    NoProgress,
    Refused,
    SchemaMismatch,
    TargetRefused,
    TidemarkError,
    Unreachable,
)
from tidemark.local.stack import LocalStack
from tidemark.member import watch as watch_module
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection

SECRET = "a-secret-that-no-text-may-hold"


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


def refused(
    error: type[TidemarkError], exit_code: int, texts: Sequence[str], action: Callable[[], Any]
) -> str:
    """The action ends in the error, whose text holds all of `texts` and no secret; the text."""
    with pytest.raises(error) as caught:
        action()
    text = str(caught.value)
    assert caught.value.exit_code == exit_code
    assert [part for part in texts if part not in text] == [], text
    assert SECRET not in text
    assert SECRET not in repr(caught.value)
    return text


def test_an_unknown_topic(world: World) -> None:
    world.settings = {"kafka": {"topics": ["no-such-topic"]}}
    texts = ["topic no-such-topic does not exist", "create it or correct kafka.topics"]
    refused(InvalidSettings, 2, texts, world.open)


def test_an_unreachable_broker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.kafka import admin, facts

    for module in (admin, facts):
        monkeypatch.setattr(module, "SECONDS", 2, raising=False)
    broken = elsewhere(world, kafka={"bootstrap.servers": "127.0.0.1:1", "sasl.password": SECRET})
    refused(Unreachable, 1, ["Kafka", "check the Kafka connection"], broken.open)


def test_an_unreachable_postgres(world: World) -> None:
    broken = elsewhere(world, port=1, password=SECRET)
    texts = ["Postgres", "127.0.0.1", "port 1", "start the server, or correct host and port"]
    refused(Unreachable, 1, texts, broken.open)


def test_a_wrong_password(world: World) -> None:
    broken = elsewhere(world, password=SECRET)
    refused(Unreachable, 1, ["password authentication failed"], broken.open)


def test_a_database_that_is_not_there(world: World) -> None:
    broken = elsewhere(world, schema="no_such_database")
    refused(Unreachable, 1, ['database "no_such_database" does not exist'], broken.open)


def test_a_role_without_any_grant(world: World, stack: LocalStack) -> None:
    with role(stack) as name:
        poor = elsewhere(world, login=name, password=SECRET)
        texts = ["permission denied for database", "`tidemark check PIPELINE`"]
        refused(Refused, 16, texts, poor.open)
    assert dump(world.warehouse)["tables"] == []


def test_a_role_that_may_not_write_the_target(world: World, stack: LocalStack) -> None:
    world.produce(3)
    world.run("first")
    world.produce(3, start=3)
    with role(stack) as name, granted(world, name):
        poor = elsewhere(world, login=name, password=SECRET)
        poor.open("second")
        texts = ['"public"."records"', 'GRANT INSERT ON "public"."records"']
        refused(Refused, 16, texts, lambda: poor.drain("second"))
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
    refused(SchemaMismatch, 14, ['"public"."records"', "ALTER TABLE", "kafka_offset"], world.drain)
    assert world.sql("SELECT count(*) FROM tidemark.batches") == [(0,)]


@pytest.mark.parametrize(
    "constraint", ["CHECK (kafka_offset < 2)", "UNIQUE (kafka_partition)", "CHECK (value <> 'x')"]
)
def test_a_target_that_refuses_a_row(world: World, constraint: str) -> None:
    """The text names the constraint and quotes nothing of the row."""
    world.produce(1)
    world.run("first")
    produce(world.kafka, world.topic, [good("x"), good(SECRET)])
    world.sql(f"ALTER TABLE public.records ADD CONSTRAINT the_guard {constraint}")
    world.open("second")
    texts = ['"public"."records" refuses a row', "the_guard", "nothing of the batch is published"]
    refused(TargetRefused, 11, texts, lambda: world.drain("second"))
    assert (world.rows(), world.ledger_offsets()[world.partition()]) == ([(0, 0)], 1)
    world.sql("ALTER TABLE public.records DROP CONSTRAINT the_guard")
    world.reset("second")
    world.run("third")
    assert len(world.rows()) == 3


def test_a_second_run_beside_the_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is fenced; the second, and its records, are untouched by that."""
    monkeypatch.setattr(watch_module, "WATCH_SECONDS", 0.1)
    world.produce(3)
    world.open("first")
    second = replace(world, executors=[])

    def take_over(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        second.open("second")

    world.before = take_over
    texts = [f"region {world.region}", "epoch 1 has passed", "another run or a reset took"]
    refused(Fenced, 10, texts, lambda: world.drain("first"))
    second.drain("second")
    assert second.close("second").rows == 3
    assert len(world.rows()) == 3


def test_a_foreign_consumer_in_the_group(world: World) -> None:
    """S4, H12: it holds a partition that nobody drains; the run names both."""
    world.settings = {"no_progress_seconds": 8}  # longer than the group needs to share anew
    world.produce(3, partition=0)
    world.produce(3, partition=1)
    world.open()
    with holder_beside(world):
        texts = [world.region, "console on", "@[0, 3)", "Stop foreign consumers"]
        text = refused(NoProgress, 1, texts, world.drain)
    [seconds] = re.findall(r"no span was claimed for (\d+) s", text)
    assert int(seconds) >= 8
    assert len(world.rows()) in (0, 3)
    world.drain()
    assert world.close().rows == 6


def test_a_foreign_consumer_that_shares_in_another_way(world: World) -> None:
    """S4: Kafka lets the member in no group whose others share nothing with its strategy."""
    world.produce(3)
    world.open()
    with consumer_beside(world, "range"):
        texts = [world.region, "INCONSISTENT_GROUP_PROTOCOL", "cooperative-sticky"]
        refused(InvalidSettings, 2, texts, world.drain)
    world.drain()
    assert world.close().rows == 3


def test_retention_that_has_passed_the_checkpoint(world: World, admin: AdminClient) -> None:
    world.produce(3)
    world.run("first")
    world.produce(5, start=3)
    truncate(admin, world, 6)
    before = dump(world.warehouse)
    texts = [f"region {world.region}", f"{world.partition()}@[3, 6)", "below the log start"]
    refused(DataLost, 13, [*texts, "Nothing was skipped", "Restore"], lambda: world.open("second"))
    assert dump(world.warehouse) == before
    assert world.kafka_offsets()[world.partition()] == 3


def test_retention_that_passes_while_a_batch_is_read(world: World, admin: AdminClient) -> None:
    world.produce(5)
    world.open()
    world.before = lambda *_: truncate(admin, world, 2)
    texts = [f"{world.partition()}@0", "does not hold it", "Nothing was skipped"]
    refused(DataLost, 13, texts, world.drain)
    assert world.rows() == []


def truncate(admin: AdminClient, world: World, offset: int) -> None:
    """Retention takes what is below the offset."""
    where = KafkaPartition(world.topic, 0, offset)
    admin.delete_records([where])[where].result(30)


def test_a_topic_that_was_created_again(world: World, admin: AdminClient) -> None:
    world.produce(3)
    world.run("first")
    create_again(admin, world.topic)
    world.produce(9)
    before = dump(world.warehouse)
    texts = [f"region {world.region}", f"topic {world.topic}", "was created again as"]
    refused(DataLost, 13, [*texts, "--accept-data-loss"], lambda: world.open("second"))
    assert dump(world.warehouse) == before


def test_a_topic_that_is_created_again_between_read_and_contribution(
    world: World, admin: AdminClient
) -> None:
    """H13: topic ids are checked once more after reading."""
    world.produce(3)
    world.open()
    world.after = lambda *_: create_again(admin, world.topic)
    refused(DataLost, 13, [f"topic {world.topic}", "was created again as"], world.drain)
    assert world.rows() == []


def test_a_log_that_ends_before_the_ledger(world: World) -> None:
    """H14: after an unclean election an end below the ledger looks like no backlog."""
    world.produce(3)
    world.run("first")
    world.sql("UPDATE tidemark.partitions SET next_offset = 7 WHERE partition = 0")
    texts = [str(world.partition()), "ends at 3, before the ledger's offset 7", "truncated"]
    refused(DataLost, 13, texts, lambda: world.open("second"))


def test_another_cluster(world: World) -> None:
    world.produce(3)
    world.run("first")
    world.sql("UPDATE tidemark.regions SET cluster_id = 'the-first-one'")
    texts = [f"region {world.region}", "Kafka cluster the-first-one", "the connection leads to"]
    refused(DataLost, 13, texts, lambda: world.open("second"))


def test_a_bound_that_is_not_positive(world: World) -> None:
    with pytest.raises(ValueError, match="max_records must be positive, got 0"):
        world.open(max_records=0)
