"""What lies below the target, and what becomes of the target between an open and a publish."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from psycopg2.errors import FeatureNotSupported
from sqlalchemy import Engine
from tests.support.desk import Desk
from tests.support.flights_table import COLUMNS, FITTING, TARGET
from tests.support.shop import Shop

from tidemark.check._postgres import target_findings
from tidemark.check.findings import State
from tidemark.errors import Refused
from tidemark.postgres.session import Cursor
from tidemark.postgres.transaction import transaction
from tidemark.staging._undo import UpsertedRows
from tidemark.staging.errors import (
    PartsAreForeign,
    TargetHasRules,
    TargetHidesRows,
    TargetIsInherited,
    TargetIsUnlogged,
)
from tidemark.staging.rewind import AppendedRows
from tidemark.staging.target import ensure
from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

VERSIONS = ("18", "15")
Database = tuple[Engine, dict[str, Any]]


@pytest.fixture(scope="module")
def far(request: pytest.FixtureRequest, database: dict[str, Any], stack: LocalStack) -> str:
    """A foreign server without a handler: tables of it can be made, and nothing can be read."""
    is_new = database["port"] == stack.postgres.port
    server = stack.postgres if is_new else request.getfixturevalue("old_server")
    admin = server.parameters(database["dbname"], ADMIN)
    with (
        closing(psycopg2.connect(**admin)) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA WRAPPER far;"
            f"GRANT USAGE ON FOREIGN SERVER far TO {database['user']}"
        )
    return "SERVER far"


@pytest.fixture
def parted(ledger_database: Database) -> Desk:
    """A region whose target is partitioned, with ten offsets; rows of partition 0 have a place."""
    desk = Desk(*ledger_database)
    name = desk.target.table
    desk.sql(
        f"DROP TABLE {desk.target}; CREATE TABLE {desk.target} (kafka_partition integer,"
        " kafka_offset bigint, batch_seq bigint NOT NULL) PARTITION BY LIST (kafka_partition);"
        f"CREATE TABLE public.{name}_0 PARTITION OF {desk.target} FOR VALUES IN (0)"
    )
    desk.grow(10)
    return desk


def attach(desk: Desk) -> None:
    """An UNLOGGED table becomes the target's partition for partition 1 of the topic."""
    part = f"public.{desk.target.table}_1"
    desk.sql(f"CREATE UNLOGGED TABLE {part} (LIKE {desk.target})")
    desk.sql(f"ALTER TABLE {desk.target} ATTACH PARTITION {part} FOR VALUES IN (1)")


@pytest.fixture
def deep(cursor: Cursor) -> Cursor:
    """The target is partitioned, and so is its only partition."""
    items = ", ".join(f"{name} {kind}" for name, kind in FITTING.items())
    cursor.execute(
        f"CREATE TABLE flights ({items}) PARTITION BY LIST (carrier);"
        "CREATE TABLE ua PARTITION OF flights FOR VALUES IN ('UA') PARTITION BY RANGE (id);"
        "CREATE TABLE ua_old PARTITION OF ua FOR VALUES FROM (0) TO (9)"
    )
    return cursor


def test_an_unlogged_table_anywhere_below_is_refused_with_what_helps(deep: Cursor) -> None:
    """B16: a crash of Postgres would empty it, and no run would read its rows again."""
    ensure(deep, TARGET, COLUMNS)
    deep.execute("CREATE UNLOGGED TABLE ua_new PARTITION OF ua FOR VALUES FROM (9) TO (99)")
    with pytest.raises(TargetIsUnlogged) as refusal:
        ensure(deep, TARGET, COLUMNS)
    assert [*map(str, refusal.value.tables)] == ['"public"."ua_new"']
    deep.execute(str(refusal.value).partition("run: ")[2])
    ensure(deep, TARGET, COLUMNS)


def test_a_foreign_table_anywhere_below_is_refused_with_what_helps(deep: Cursor, far: str) -> None:
    """B16: rows of it are committed apart from the ledger."""
    deep.execute(f"CREATE FOREIGN TABLE ua_new PARTITION OF ua FOR VALUES FROM (9) TO (99) {far}")
    with pytest.raises(PartsAreForeign) as refusal:
        ensure(deep, TARGET, COLUMNS)
    assert refusal.value.parts == (('"public"."ua"', '"public"."ua_new"'),)
    deep.execute(str(refusal.value).partition("): ")[2])
    ensure(deep, TARGET, COLUMNS)


def test_a_foreign_table_that_inherits_is_refused(cursor: Cursor, far: str) -> None:
    """B16: a rewind deletes from it too."""
    ensure(cursor, TARGET, COLUMNS)
    cursor.execute(f"CREATE FOREIGN TABLE cold () INHERITS (flights) {far}")
    with pytest.raises(PartsAreForeign):
        ensure(cursor, TARGET, COLUMNS)


def test_an_unlogged_name_of_logged_partitions_is_no_danger(cursor: Cursor) -> None:
    """B16: Postgres up to 17 lets a partitioned table be called so, which has no rows itself."""
    items = ", ".join(f"{name} {kind}" for name, kind in FITTING.items())
    try:
        cursor.execute(f"CREATE UNLOGGED TABLE flights ({items}) PARTITION BY LIST (carrier)")
    except FeatureNotSupported:
        pytest.skip("this Postgres knows no such table")
    cursor.execute("CREATE TABLE ua PARTITION OF flights DEFAULT")
    ensure(cursor, TARGET, COLUMNS)


@pytest.mark.parametrize(
    ("ddl", "refusal"),
    [
        ("ALTER TABLE public.{0}_0 SET UNLOGGED", TargetIsUnlogged),
        ("CREATE RULE away AS ON INSERT TO public.{0} DO INSTEAD INSERT INTO public.{0}_0"
         " VALUES (new.kafka_partition, new.kafka_offset, new.batch_seq)", TargetHasRules),
    ],
)  # fmt: skip
def test_what_changes_after_the_open_is_refused_by_the_publish(
    parted: Desk, ddl: str, refusal: type[Refused]
) -> None:
    """B16: as many rows go in as were staged, so only the catalog tells."""
    batch = parted.must_plan(parted.open().epoch)
    contribution = parted.stage(batch, parted.join(parted.epoch))
    parted.sql(ddl.format(parted.target.table))
    with pytest.raises(refusal):
        parted.publish(batch, contribution)
    assert parted.rows() == []


def test_a_partition_that_comes_after_the_open_is_seen_by_the_publish(parted: Desk) -> None:
    """B16: and once it is mended, the batch goes in as it was staged."""
    parted.grow(10, 1)
    batch = parted.must_plan(parted.open().epoch)
    contribution = parted.stage(batch, parted.join(parted.epoch))
    attach(parted)
    with pytest.raises(TargetIsUnlogged) as refusal:
        parted.publish(batch, contribution)
    assert parted.rows() == []
    parted.sql(str(refusal.value).partition("run: ")[2])
    parted.publish(batch, contribution)
    assert parted.rows() == parted.expected_rows()


def test_a_rewind_sees_a_partition_that_comes_after_its_look(
    parted: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: rows of a foreign one could be gone though the rewind is not committed."""
    parted.work(parted.open().epoch)
    late(monkeypatch, AppendedRows, "_is_there", lambda: attach(parted))
    with pytest.raises(TargetIsUnlogged):
        parted.rewind(0)
    assert parted.rows() == parted.expected_rows()
    monkeypatch.undo()
    with pytest.raises(TargetIsUnlogged), transaction(parted.engine, "look") as cursor:
        parted.published_rows.count_rows(cursor, 0)


def test_a_rewind_of_an_upsert_sees_what_became_of_the_table(
    ledger_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: before it counts, and behind what it put back."""
    shop = Shop(ledger_database, None)
    shop.publish([(1, "a")])
    shop.publish([(1, "b")])
    alter = f"ALTER TABLE {shop.desk.target} SET"
    late(monkeypatch, UpsertedRows, "_names", lambda: shop.desk.sql(f"{alter} UNLOGGED"))
    with pytest.raises(TargetIsUnlogged):
        shop.desk.rewind(1)
    assert shop.rows() == {1: "b"}
    monkeypatch.undo()
    with pytest.raises(TargetIsUnlogged), transaction(shop.desk.engine, "look") as cursor:
        shop.desk.published_rows.count_rows(cursor, 1)
    shop.desk.sql(f"{alter} LOGGED")
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a"}


def late(patch: pytest.MonkeyPatch, of: type, name: str, act: Callable[[], object]) -> None:
    """Somebody acts right behind this method."""
    look = getattr(of, name)

    def looked(*given: object) -> object:
        found = look(*given)
        act()
        return found

    patch.setattr(of, name, looked)


def test_check_names_what_would_not_keep_rows(parted: Desk) -> None:
    """B16."""
    assert guards_of(parted) is State.ok
    attach(parted)
    assert guards_of(parted) is State.failed


def guards_of(desk: Desk) -> State:
    """What `tidemark check` finds of the target's guards."""
    found = {one.check: one.state for one in target_findings(desk.engine, desk.target)}
    return found["target's guards"]


def test_rows_that_a_policy_hides_from_a_publish_are_refused(ledger_database: Database) -> None:
    """B16: the row of a key that is deleted would stay, and nobody would see it."""
    shop = Shop(ledger_database, None)
    shop.publish([(1, "a"), (2, "b")])
    for action in ("ENABLE", "FORCE"):
        shop.desk.sql(f"ALTER TABLE {shop.desk.target} {action} ROW LEVEL SECURITY")
    shop.desk.sql(f"CREATE POLICY one ON {shop.desk.target} USING (id > 1)")
    with pytest.raises(TargetHidesRows):
        shop.publish([(1, None)])


def test_a_table_that_inherits_from_an_upserts_is_refused(ledger_database: Database) -> None:
    """B16: a key that is in it would be inserted once more."""
    shop = Shop(ledger_database, None)
    shop.publish([(1, "a")])
    child = f"public.child_{shop.desk.region}"
    shop.desk.sql(f"CREATE TABLE {child} () INHERITS ({shop.desk.target})")
    with (
        pytest.raises(TargetIsInherited) as refusal,
        transaction(shop.desk.engine, "target") as cursor,
    ):
        shop.desk.target_writers.ensure_targets(cursor)
    with pytest.raises(TargetIsInherited):
        shop.publish([(1, "b")])
    assert shop.rows() == {1: "a"}
    shop.desk.sql(str(refusal.value).partition("run: ")[2])
    shop.desk.grow(-1)
    shop.publish([(1, "c")])
    assert shop.rows() == {1: "c"}
