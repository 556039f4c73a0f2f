"""A target table that exists: what fits, and the ALTER TABLE that makes the rest fit."""

from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql
from tests.support.flights_table import (
    COLUMNS,
    STAGING,
    TARGET,
    Parameters,
    create_flights,
    publish_a_row,
)
from tests.support.only import copy_only

from tidemark.errors import SchemaMismatch
from tidemark.postgres.session import Connection, Cursor
from tidemark.staging import tables
from tidemark.staging.catalog import find_columns
from tidemark.staging.columns import columns_of
from tidemark.staging.errors import TargetDoesNotFit
from tidemark.staging.move import move_rows
from tidemark.staging.target import ensure
from tidemark.verify._rows import comparable

VERSIONS = ("18", "15")


def refusal_of(cursor: Cursor) -> str:
    with pytest.raises(SchemaMismatch) as refusal:
        ensure(cursor, TARGET, COLUMNS)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("changed", "extra"),
    [
        ({}, ()),
        ({"delay": "bigint"}, ()),
        ({"delay": "double precision"}, ()),
        ({"delay": "numeric(12,2)"}, ()),
        ({"delay": "numeric"}, ()),
        ({"ratio": "double precision"}, ()),
        ({"carrier": "varchar"}, ()),
        ({"price": "numeric"}, ()),
        ({"price": "numeric(14,4)"}, ()),
        ({"seen": "timestamptz(6)"}, ()),
        ({"tags": "bigint[]"}, ()),
        ({"note": "json"}, ()),
        ({"delay": "integer NOT NULL"}, ()),
        ({"batch_seq": "bigint"}, ()),
        ({}, ("extra text",)),
        ({}, ("extra text NOT NULL DEFAULT ''",)),
        ({}, ("number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",)),
        ({}, ("number serial PRIMARY KEY",)),
        ({}, ("twice integer GENERATED ALWAYS AS (delay * 2) STORED",)),
        ({"delay": "small"}, ()),
    ],
)
def test_a_wider_table_takes_the_rows(
    connection: Connection, cursor: Cursor, changed: dict[str, str], extra: tuple[str, ...]
) -> None:
    cursor.execute("CREATE DOMAIN small AS integer CHECK (VALUE < 1000)")
    create_flights(cursor, *extra, **changed)
    assert ensure(cursor, TARGET, COLUMNS) is False
    publish_a_row(connection, cursor)
    cursor.execute("SELECT delay::int, carrier, tags::text, note::jsonb FROM public.flights")
    assert cursor.fetchall() == [(-3, "UA", "{1,NULL}", {"a": 1})]


@pytest.mark.parametrize(
    ("changed", "extra", "fact"),
    [
        ({"delay": None}, (), "delay: the table lacks it, the transform's rows have integer"),
        ({"batch_seq": None}, (), "batch_seq: the table lacks it; rewinds delete by it"),
        ({"batch_seq": "integer"}, (), "batch_seq: the table has integer, the transform's rows b"),
        ({"id": "integer"}, (), "id: the table has integer, the transform's rows bigint"),
        ({"id": "double precision"}, (), "id: the table has double precision"),
        ({"id": "integer PRIMARY KEY"}, (), "id: the table has integer"),
        ({"id": "numeric(18,0)"}, (), "id: the table has numeric(18,0)"),
        ({"delay": "smallint DEFAULT 0"}, (), "delay: the table has smallint"),
        ({"delay": "text DEFAULT 'none'"}, (), "delay: the table has text"),
        ({"carrier": "varchar(2)"}, (), "carrier: the table has character varying(2)"),
        ({"carrier": "char(2)"}, (), "carrier: the table has character(2)"),
        ({"carrier": "integer DEFAULT 1"}, (), "carrier: the table has integer"),
        ({"carrier": "integer GENERATED ALWAYS AS IDENTITY"}, (), "carrier: the table has integer"),
        ({"carrier": "money"}, (), "carrier: the table has money"),
        ({"carrier": "jsonb[]"}, (), "carrier: the table has jsonb[]"),
        ({"carrier": "tstzrange"}, (), "carrier: the table has tstzrange"),
        ({"carrier": "feeling"}, (), "carrier: the table has feeling"),
        ({"seen": "timestamp"}, (), "seen: the table has timestamp without time zone"),
        ({"seen": "timestamptz(3)"}, (), "seen: the table has timestamp(3) with time zone"),
        ({"seen": "timestamptz(0) DEFAULT now()"}, (), "seen: the table has timestamp(0)"),
        ({"seen": "date"}, (), "seen: the table has date"),
        ({"price": "numeric(8,2)"}, (), "price: the table has numeric(8,2)"),
        ({"price": "numeric(12,1)"}, (), "price: the table has numeric(12,1)"),
        ({"price": "double precision"}, (), "price: the table has double precision"),
        ({"tags": "smallint[]"}, (), "tags: the table has smallint[]"),
        ({"note": "text"}, (), "note: the table has text"),
        ({"id": "bigint GENERATED ALWAYS AS IDENTITY"}, (), "id: the table numbers it itself"),
        ({"delay": "integer GENERATED ALWAYS AS (1) STORED"}, (), "delay: the table computes it"),
        ({"delay": "bigint GENERATED ALWAYS AS (1) STORED"}, (), "delay: the table computes it"),
        ({"delay": "text GENERATED ALWAYS AS ('') STORED"}, (), "delay: the table computes it"),
        ({}, ("number bigint NOT NULL",), "number: the transform's rows lack it"),
        ({}, ("number bigint PRIMARY KEY",), "number: the transform's rows lack it"),
        ({}, ("x int", "y int", "PRIMARY KEY (x, y)"), "x: the transform's rows lack it"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_with_the_alter_that_helps(
    connection: Connection,
    cursor: Cursor,
    changed: dict[str, str | None],
    extra: tuple[str, ...],
    fact: str,
) -> None:
    cursor.execute("CREATE TYPE feeling AS (name text, strength int)")
    create_flights(cursor, *extra, **changed)
    refusal = refusal_of(cursor)
    assert f"\n  {fact}" in refusal
    for line in refusal.splitlines():
        if line.startswith("  ALTER TABLE"):
            cursor.execute(line)
    assert ensure(cursor, TARGET, COLUMNS) is False
    publish_a_row(connection, cursor)


@pytest.mark.parametrize(
    ("column", "type_name"),
    [
        ("delay", "boolean DEFAULT true"),
        ("delay", "date"),
        ("delay", "timestamptz DEFAULT now()"),
        ("delay", "boolean GENERATED ALWAYS AS (true) STORED"),
        ("tags", "jsonb"),
        ("tags", "boolean[]"),
    ],
)
def test_no_conversion_is_proposed_that_no_value_survives(
    cursor: Cursor, column: str, type_name: str
) -> None:
    create_flights(cursor, **{column: type_name})
    with pytest.raises(TargetDoesNotFit) as refusal:
        ensure(cursor, TARGET, COLUMNS)
    (one,) = refusal.value.differences
    assert one.column == column
    assert not any("TYPE" in action for action in one.actions)


def test_a_virtual_column_is_refused_with_the_alter_that_helps(warehouse: Parameters) -> None:
    with closing(psycopg2.connect(**warehouse)) as connection, connection.cursor() as cursor:
        create_flights(cursor, delay="bigint GENERATED ALWAYS AS (1) VIRTUAL")
        (alter,) = [line for line in refusal_of(cursor).splitlines() if "ALTER" in line]
        cursor.execute(alter)
        assert ensure(cursor, TARGET, COLUMNS) is False


def test_all_differences_are_told_at_once(cursor: Cursor) -> None:
    create_flights(cursor, "x int NOT NULL", delay="smallint", carrier=None, batch_seq=None)
    refusal = refusal_of(cursor)
    assert [line.split(":")[0].strip() for line in refusal.splitlines()[1:5]] == [
        "delay", "carrier", "batch_seq", "x",
    ]  # fmt: skip
    assert refusal.count("ALTER TABLE") == 4


def test_texts_that_citext_calls_equal_are_told_apart(old_warehouse: Parameters) -> None:
    """B8: its package comes with Debian's Postgres alone. A proof compares every letter."""
    with closing(psycopg2.connect(**old_warehouse)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA tidemark_staging; CREATE EXTENSION citext")
        create_flights(cursor, carrier="citext")
        assert ensure(cursor, TARGET, COLUMNS) is False
        publish_a_row(connection, cursor)
        found = {own.name: own for own in find_columns(cursor, TARGET.schema, TARGET.table)}
        cursor.execute("SELECT carrier = lower(carrier::text)::citext FROM public.flights")
        assert cursor.fetchone() == (True,)
        told_apart = sql.SQL(
            "SELECT carrier = lower(carrier) FROM (SELECT {} FROM public.flights) c"
        )
        cursor.execute(told_apart.format(comparable(found["carrier"])))
        assert cursor.fetchone() == (False,)


def test_rows_from_before_get_a_batch_that_no_rewind_removes(cursor: Cursor) -> None:
    create_flights(cursor, batch_seq=None)
    cursor.execute("INSERT INTO public.flights (id) VALUES (1)")
    cursor.execute(refusal_of(cursor).splitlines()[-1])
    cursor.execute("SELECT batch_seq FROM public.flights")
    assert cursor.fetchall() == [(0,)]


def test_a_column_of_nulls_fits_any_column_that_may_be_null(
    connection: Connection, cursor: Cursor
) -> None:
    schema = pa.schema([("gone", pa.null())])
    columns = columns_of(schema)
    cursor.execute("CREATE TABLE public.flights (gone date, batch_seq bigint)")
    ensure(cursor, TARGET, columns)
    tables.create(cursor, STAGING, columns)
    connection.commit()
    batches = iter([pa.RecordBatch.from_arrays([pa.nulls(3)], schema=schema)])
    assert copy_only(connection, STAGING, batches, schema, member=1, attempt=1) == 3
    assert move_rows(cursor, STAGING, TARGET, columns, 7, [(1, 1)]) == 3
