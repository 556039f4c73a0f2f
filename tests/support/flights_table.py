"""A table of flights in Postgres, and a row that goes the whole way into it."""

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import psycopg2
import pyarrow as pa
from tests.support.only import copy_only

from tidemark.model.batch import Staging
from tidemark.postgres.session import Connection, Cursor
from tidemark.staging import tables
from tidemark.staging.catalog import find_columns
from tidemark.staging.columns import columns_of
from tidemark.staging.fit import parsed
from tidemark.staging.move import move_rows
from tidemark.staging.target import Target

Parameters = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("delay", pa.int32()),
        ("ratio", pa.float32()),
        ("carrier", pa.string()),
        ("seen", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.int32())),
        ("note", pa.struct([("a", pa.int32())])),
    ]
)
COLUMNS = columns_of(SCHEMA)
TARGET = Target("public", "flights")
STAGING = Staging.of("flights", 7)
ROW = [7, -3, 0.5, "UA", 1_700_000_000_000_000, Decimal("1.25"), [1, None], {"a": 1}]
FITTING = {
    "id": "bigint",
    "delay": "integer",
    "ratio": "real",
    "carrier": "text",
    "seen": "timestamptz",
    "price": "numeric(10,2)",
    "tags": "integer[]",
    "note": "jsonb",
    "batch_seq": "bigint NOT NULL",
}


def emptied(database: Parameters) -> Iterator[Connection]:
    """A connection to the database, emptied for one test."""
    with closing(psycopg2.connect(**database)) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "DROP SCHEMA IF EXISTS public, tidemark_staging, s CASCADE;"
                "CREATE SCHEMA public; CREATE SCHEMA tidemark_staging"
            )
        yield connection


def batch() -> pa.RecordBatch:
    values = dict(zip(SCHEMA.names, ROW, strict=True))
    return pa.RecordBatch.from_pylist([values], schema=SCHEMA)


def publish_a_row(connection: Connection, cursor: Cursor) -> None:
    """One row goes the whole way through staging into the target."""
    tables.create(cursor, STAGING, COLUMNS)
    connection.commit()
    assert copy_only(connection, STAGING, iter([batch()]), SCHEMA, member=1, attempt=2) == 1
    columns = parsed(COLUMNS, find_columns(cursor, TARGET.schema, TARGET.table))
    assert move_rows(cursor, STAGING, TARGET, columns, 7, [(1, 2)]) == 1


def create_flights(cursor: Cursor, *extra: str, **changed: str | None) -> None:
    """A table that fits but for `changed` types (None leaves a column out) and `extra` items."""
    types = {name: kind for name, kind in (FITTING | changed).items() if kind is not None}
    items = [f"{name} {kind}" for name, kind in types.items()]
    cursor.execute(f"CREATE TABLE public.flights ({', '.join([*items, *extra])})")
