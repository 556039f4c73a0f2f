"""Migrations and statements, on the oldest and on the newest Postgres."""

import re
import threading
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from psycopg2 import errorcodes
from tests.support.desk import Desk
from tests.support.region import ask, rows_of

from tidemark.ledger.errors import LedgerIsNewer
from tidemark.ledger.migrate import (
    MIGRATION_LOCK,
    is_current,
    migrate,
    migration_sql,
    newest,
    present,
)
from tidemark.postgres import transaction
from tidemark.postgres.errors import LedgerTablesDiffer, PostgresUnreachable
from tidemark.postgres.session import queries, query
from tidemark.postgres.transaction import connect

QUERIES = sorted(queries())


def schema_of(parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Columns, constraints, indexes and functions of the ledger."""
    return ask(
        parameters,
        """
        SELECT c.table_name, c.column_name, c.data_type, c.is_nullable, c.column_default
        FROM information_schema.columns c WHERE c.table_schema = 'tidemark'
        UNION ALL SELECT conrelid::regclass::text, conname, contype::text, '',
            pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'tidemark'::regnamespace AND contype <> 'n'
        UNION ALL SELECT tablename, indexname, '', '', indexdef
        FROM pg_indexes WHERE schemaname = 'tidemark'
        UNION ALL SELECT '', proname, '', '', pg_get_functiondef(oid)
        FROM pg_proc WHERE pronamespace = 'tidemark'::regnamespace
        ORDER BY 1, 2, 3
        """,
    )


def test_migrations_apply_from_empty_and_twice(any_warehouse: dict[str, Any]) -> None:
    engine = connect(any_warehouse)
    assert not is_current(engine)
    assert migrate(engine) == newest()
    once = schema_of(any_warehouse)
    assert migrate(engine) == newest()
    assert is_current(engine)
    assert schema_of(any_warehouse) == once
    assert len(once) > 50
    engine.dispose()


def migrated_at_once(parameters: dict[str, Any]) -> None:
    """By four threads."""
    engine = connect(parameters)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            migrate(engine)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    engine.dispose()
    assert errors == []
    assert ask(parameters, "SELECT * FROM tidemark.alembic_version") == [(newest(),)]


def test_migrations_at_once_are_one_migration(any_warehouse: dict[str, Any]) -> None:
    migrated_at_once(any_warehouse)


def test_no_default_of_the_database_changes_a_migration(warehouse: dict[str, Any]) -> None:
    """G150: in a snapshot, who waited for another migration would not see it."""
    defaults = "-c default_transaction_isolation=serializable -c default_transaction_read_only=on"
    migrated_at_once(warehouse | {"options": defaults})


def test_nobody_waits_for_ever_for_a_migration_that_stands_still(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """G150"""
    monkeypatch.setitem(transaction.TIMEOUTS_MS, "lock_timeout", 200)
    with closing(psycopg2.connect(**warehouse)) as stopped:
        stopped.cursor().execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        with pytest.raises(PostgresUnreachable) as gave_up:
            migrate(engine := connect(warehouse))
    assert gave_up.value.sqlstate == errorcodes.LOCK_NOT_AVAILABLE
    migrate(engine)
    engine.dispose()


def test_a_migration_leaves_the_pool_in_autocommit(warehouse: dict[str, Any]) -> None:
    engine = connect(warehouse)
    migrate(engine)
    for _ in range(2):
        pooled = engine.raw_connection()
        assert pooled.driver_connection is not None
        assert pooled.driver_connection.autocommit
        pooled.close()
    engine.dispose()


def test_a_migration_that_fails_leaves_nothing(warehouse: dict[str, Any]) -> None:
    ask(warehouse, "CREATE SCHEMA tidemark; CREATE TABLE tidemark.resets (mine int)")
    engine = connect(warehouse)
    with pytest.raises(LedgerTablesDiffer):
        migrate(engine)
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'tidemark'"
    assert ask(warehouse, tables) == [("resets",)]
    assert not is_current(engine)
    engine.dispose()


def test_the_printed_script_makes_the_same_schema(any_warehouse: dict[str, Any]) -> None:
    engine = connect(any_warehouse)
    migrate(engine)
    migrated = schema_of(any_warehouse)
    ask(any_warehouse, "DROP SCHEMA tidemark, tidemark_staging CASCADE")
    ask(any_warehouse, migration_sql())
    assert is_current(engine)
    assert schema_of(any_warehouse) == migrated
    engine.dispose()


def test_a_newest_ledger_needs_no_script(any_warehouse: dict[str, Any]) -> None:
    engine = connect(any_warehouse)
    migrate(engine)
    assert migration_sql(present(engine)) == ""
    engine.dispose()


def test_an_older_tidemark_refuses_a_newer_ledger(warehouse: dict[str, Any]) -> None:
    engine = connect(warehouse)
    migrate(engine)
    ask(warehouse, "UPDATE tidemark.alembic_version SET version_num = '9999'")
    for action in (is_current, migrate, present):
        with pytest.raises(LedgerIsNewer) as caught:
            action(engine)
        assert caught.value.revision == "9999"
    assert ask(warehouse, "SELECT * FROM tidemark.alembic_version") == [("9999",)]
    engine.dispose()


def test_no_extension_is_needed(desk: Desk) -> None:
    assert desk.sql("SELECT extname FROM pg_extension") == [("plpgsql",)]


def test_every_statement_fits_the_schema(desk: Desk) -> None:
    with closing(psycopg2.connect(**desk.warehouse)) as connection:
        for name in QUERIES:
            rows_of(connection, f"PREPARE {name} AS {numbered(query(name))}")


def numbered(statement: str) -> str:
    """With numbers for its parameters, and without the declaration of a cursor."""
    numbers: dict[str, int] = {}
    text = re.sub(
        r"%\((\w+)\)s", lambda m: f"${numbers.setdefault(m[1], len(numbers) + 1)}", statement
    )
    return re.sub(r"DECLARE \w+ NO SCROLL CURSOR FOR", "", text)


@pytest.mark.parametrize("name", QUERIES)
def test_every_statement_says_what_it_is_and_is_one(name: str) -> None:
    text = query(name)
    assert text.startswith("-- ")
    assert ";" not in re.sub(r"--.*", "", text)
