"""A target whose changes Postgres sends to subscribers: what can't be done is said before it is."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Engine
from tests.support.desk import Desk
from tests.support.filled import copied
from tests.support.shop import Shop

from tidemark.check._postgres import target_findings
from tidemark.check.findings import State
from tidemark.model.plan import Bounds
from tidemark.postgres.errors import PostgresUnreachable
from tidemark.postgres.transaction import connect, transaction
from tidemark.staging.errors import TargetLacksIdentity
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

Database = tuple[Engine, dict[str, Any]]


@pytest.fixture
def own(stack: LocalStack, migrated: str) -> Iterator[Database]:
    """A database of this test's own: a publication may be of all tables."""
    with copied(stack, template=migrated) as parameters:
        engine = connect(parameters)
        yield engine, parameters
        engine.dispose()


def publish(stack: LocalStack, database: Database, what: str) -> None:
    """A superuser makes a publication."""
    admin = stack.postgres.parameters(database[1]["dbname"], ADMIN)
    with closing(psycopg2.connect(**admin)) as connection, connection:
        connection.cursor().execute(f"CREATE PUBLICATION sent {what}")


def worked(database: Database, *, is_parted: bool = False) -> Desk:
    """Two batches in a table without a primary key."""
    desk = Desk(*database)
    if is_parted:
        name = desk.target.table
        desk.sql(
            f"DROP TABLE {desk.target}; CREATE TABLE {desk.target} (kafka_partition integer,"
            " kafka_offset bigint, batch_seq bigint NOT NULL) PARTITION BY LIST (kafka_partition);"
            f"CREATE TABLE public.{name}_0 PARTITION OF {desk.target} DEFAULT"
        )
    desk.grow(10)
    for run in ("one", "two"):
        desk.work(desk.open(run, Bounds(5)).epoch)
    return desk


@pytest.mark.parametrize(
    ("what", "is_parted"),
    [
        ("FOR TABLE {0}", False),
        ("FOR ALL TABLES", False),
        ("FOR TABLES IN SCHEMA public", False),
        ("FOR TABLE {0} WITH (publish_via_partition_root = true)", True),
        ("FOR TABLE {0}", True),
    ],
)
def test_rows_that_nothing_tells_apart_are_not_deleted(
    stack: LocalStack, own: Database, what: str, is_parted: bool
) -> None:
    """The dry run, `check` and the rewind name what to do; a run that appends goes on."""
    desk = worked(own, is_parted=is_parted)
    publish(stack, own, what.format(desk.target))
    rows = desk.rows()
    with (
        pytest.raises(TargetLacksIdentity) as looked,
        transaction(desk.engine, "look") as cursor,
    ):
        desk.published_rows.count_rows(cursor, 1)
    with pytest.raises(TargetLacksIdentity):
        desk.rewind(1)
    assert desk.rows() == rows
    found = {one.check: one for one in target_findings(desk.engine, desk.target)}
    assert found["target's publications"].state is State.warned
    desk.grow(5, 1)
    desk.work(desk.open("three").epoch)
    desk.sql(str(looked.value).partition("run: ")[2])
    desk.rewind(1)
    assert desk.rows() == rows[: len(desk.rows())]


def test_a_publication_without_deletions_is_no_hindrance(stack: LocalStack, own: Database) -> None:
    desk = worked(own)
    publish(stack, own, f"FOR TABLE {desk.target} WITH (publish = 'insert, update')")
    desk.rewind(1)
    assert desk.rows() == desk.expected_rows()


def test_what_comes_behind_the_look_refuses_no_row(
    stack: LocalStack, own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the table's state, which no transform corrects."""
    desk = worked(own)
    monkeypatch.setattr("tidemark.staging.rewind.refuse_unidentified", lambda *_, **__: None)
    publish(stack, own, f"FOR TABLE {desk.target}")
    with pytest.raises(PostgresUnreachable) as told:
        desk.rewind(1)
    assert told.value.sqlstate == "55000"


def test_an_upsert_by_an_index_alone_is_refused_before_it_works(
    stack: LocalStack, own: Database
) -> None:
    """Each UPDATE would be; a primary key tells rows apart."""
    shop = Shop(own, None)
    table = shop.desk.target
    publish(stack, own, "FOR ALL TABLES")
    shop.publish([(1, "a"), (2, "b")])
    shop.publish([(1, "c"), (2, None)])
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}
    shop.desk.sql(
        f"ALTER TABLE {table} DROP CONSTRAINT {table.table}_pkey, ADD CONSTRAINT by_id UNIQUE (id)"
    )
    with (
        pytest.raises(TargetLacksIdentity) as refused,
        transaction(shop.desk.engine, "target") as cursor,
    ):
        shop.desk.target_writers.ensure_targets(cursor)
    assert refused.value.changes == "updates and deletions"
    with (
        pytest.raises(TargetLacksIdentity),
        transaction(shop.desk.engine, "look") as cursor,
    ):
        shop.desk.published_rows.count_rows(cursor, 0)
    shop.desk.sql(f"ALTER TABLE {table} ALTER id SET NOT NULL, REPLICA IDENTITY USING INDEX by_id")
    shop.publish([(1, "d")])
    assert shop.rows() == {1: "d", 2: "b"}
