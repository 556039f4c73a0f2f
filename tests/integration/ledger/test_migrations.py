"""Migrations and statements, on the oldest and on the newest Postgres."""

import re
import threading
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from alembic import command
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


OLD_LEDGER = """
INSERT INTO tidemark.regions (region, group_id, cluster_id, head_seq, oldest_seq, next_seq)
    VALUES ('told', 'told', 'c', 3, 1, 4), ('never', 'never', 'c', 2, 1, 3),
           ('new', 'new', 'c', 0, 0, 1);
INSERT INTO tidemark.runs (region, epoch, run_id, opening, state, max_records, in_flight,
                           dead_letters_max_ratio, backlog)
    SELECT region, epoch, run_id, gen_random_uuid(), state, 1, 1, 1, 1
    FROM (VALUES ('told', 1, 'dag/1', 'closed'), ('told', 2, 'cli/2', 'closed'),
                 ('told', 3, 'dag/3', 'failed'), ('never', 1, 'cli/1', 'closed'))
        AS t (region, epoch, run_id, state);
INSERT INTO tidemark.batches (region, seq, epoch, previous_seq, in_flight, state, published_at,
    records, rows_contributed, rows_moved, dead_letters_contributed, dead_letters_moved)
    SELECT region, epoch, epoch, epoch - 1, 1, 'published', now(), 1, 1, 1, 0, 0 FROM tidemark.runs;
"""


def test_what_an_older_version_has_announced_is_not_forgotten(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its runs that closed; the command line's told nobody."""
    engine, upgrade = connect(warehouse), command.upgrade
    with monkeypatch.context() as patch:
        patch.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        migrate(engine)
    ask(warehouse, OLD_LEDGER)
    assert migrate(engine) == newest()
    told = ask(warehouse, "SELECT region, announced_seq FROM tidemark.regions ORDER BY 1")
    assert told == [("never", 1), ("new", 0), ("told", 1)]
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
