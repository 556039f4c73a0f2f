"""B20: columns that the target lacks are added where the pipeline consents, and nothing else."""

from typing import Any

import pyarrow as pa
import pytest
from psycopg2.errorcodes import LOCK_NOT_AVAILABLE
from tests.support.flights_table import TARGET

from tidemark.postgres.errors import PostgresUnreachable
from tidemark.postgres.session import Cursor
from tidemark.postgres.transaction import connect, transaction
from tidemark.runs import fit
from tidemark.staging.columns import columns_of
from tidemark.staging.errors import ColumnsMayNotBeAdded, TargetDoesNotFit
from tidemark.staging.target import ensure
from tidemark.staging.target_writer import TargetWriter, TargetWriters, add_columns

OLD = columns_of(pa.schema([("id", pa.int64()), ("note", pa.string())]))
PRICE = pa.field("price", pa.decimal128(9, 2))
NEW = columns_of(pa.schema([("id", pa.int64()), ('Select "x"', pa.list_(pa.int32())), PRICE]))


def columns(cursor: Cursor) -> list[tuple[str, bool]]:
    cursor.execute(
        "SELECT attname, attnotnull FROM pg_attribute"
        " WHERE attrelid = 'public.flights'::regclass AND attnum > 0 ORDER BY attnum"
    )
    return cursor.fetchall()


def test_what_is_missing_is_added_and_may_be_null(cursor: Cursor) -> None:
    """B20: with its exact name, once; what rows no longer have stays."""
    ensure(cursor, TARGET, OLD)
    added = {'Select "x"': "integer[]", "price": "numeric(9,2)"}
    assert add_columns(cursor, TARGET, NEW) == added
    assert add_columns(cursor, TARGET, NEW) == {}
    assert ensure(cursor, TARGET, NEW) is False
    names = ["id", "note", "batch_seq", 'Select "x"', "price"]
    assert columns(cursor) == [(name, name == "batch_seq") for name in names]


def test_a_table_that_is_not_there_is_left_to_be_made(cursor: Cursor) -> None:
    """B20"""
    assert add_columns(cursor, TARGET, NEW) == {}
    assert ensure(cursor, TARGET, NEW) is True


def test_no_type_is_changed(cursor: Cursor) -> None:
    """B20: the table is refused as ever."""
    cursor.execute("CREATE TABLE public.flights (id smallint, batch_seq bigint NOT NULL)")
    assert list(add_columns(cursor, TARGET, OLD)) == ["note"]
    with pytest.raises(TargetDoesNotFit):
        ensure(cursor, TARGET, OLD)


def test_what_is_no_table_of_ours_is_refused_with_the_statement(cursor: Cursor) -> None:
    """B20"""
    cursor.execute("CREATE VIEW public.flights AS SELECT 1::bigint AS id")
    with pytest.raises(ColumnsMayNotBeAdded) as caught:
        add_columns(cursor, TARGET, OLD)
    assert caught.value.target == '"public"."flights"'


def test_a_look_does_not_wait_for_who_reads_the_table(
    warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever came after it would wait behind it, for as long as a report takes."""
    monkeypatch.setattr(fit, "LOOK_WAITS", "100ms")
    engine = connect(warehouse)
    with transaction(engine, "target") as cursor:
        ensure(cursor, TARGET, OLD)
    writers = TargetWriters((TargetWriter(TARGET, NEW, adds_columns=True),))
    with transaction(engine, "report") as cursor:
        cursor.execute("SELECT FROM public.flights")
        with pytest.raises(PostgresUnreachable) as held:
            fit.would_fit(engine, writers)
        assert held.value.sqlstate == LOCK_NOT_AVAILABLE
    added = {'"public"."flights"': {'Select "x"': "integer[]", "price": "numeric(9,2)"}}
    assert fit.would_fit(engine, writers).added == added
    engine.dispose()
