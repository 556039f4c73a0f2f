"""A batch's own staging tables: made, filled with dead letters and reads, dropped."""

from base64 import b64decode
from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest
from tests.support.flights_table import (
    COLUMNS,
    STAGING,
    Parameters,
)

from tidemark.model.batch import DeadLetter, SpanRead, Staging
from tidemark.model.errors import ReadsDiffer
from tidemark.model.offsets import LogPosition, Span
from tidemark.postgres.session import Connection, Cursor
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.copy import copy_dead_letters
from tidemark.staging.tables import complete_reads, record_reads

NUMBERS = pa.schema([("n", pa.int64())])


def staged(connection: Connection, cursor: Cursor, schema: pa.Schema) -> None:
    tables.create(cursor, STAGING, columns_of(schema))
    connection.commit()


def test_dead_letters_are_kept_byte_for_byte(connection: Connection, cursor: Cursor) -> None:
    tables.create(cursor, STAGING, COLUMNS)
    raw = bytes(range(256))
    headers = (("k\0", raw), ("k\0", None), ("é", b""))
    dead_letters = [
        DeadLetter(
            "t", 3, 17, 1_700_000_000_000, raw, raw, headers, "not JSON", "at \0 and \ud800"
        ),
        DeadLetter("t", 3, 18, None, None, None, (), "empty", ""),
    ]
    assert copy_dead_letters(cursor, STAGING, 1, 5, dead_letters) == 2
    cursor.execute(
        'SELECT member, attempt, topic, partition, "offset", timestamp_ms, key, value,'
        " headers, reason, detail FROM tidemark_staging.flights_7_dead_letters ORDER BY 5"
    )
    first, second = cursor.fetchall()
    assert first[:6] == (1, 5, "t", 3, 17, 1_700_000_000_000)
    assert [bytes(value) for value in first[6:8]] == [raw, raw]
    assert [header["key"] for header in first[8]] == [r"k\x00", r"k\x00", "é"]
    assert b64decode(first[8][0]["value"]) == raw
    assert first[8][1]["value"] is None
    assert first[9:] == ("not JSON", r"at \x00 and \ud800")
    assert second[5:] == (None, None, None, [], "empty", "")


def test_many_dead_letters_stream(connection: Connection, cursor: Cursor) -> None:
    tables.create(cursor, STAGING, COLUMNS)
    dead_letter = DeadLetter("t", 0, 1, 0, None, b"x", (), "bad", "")
    assert copy_dead_letters(cursor, STAGING, 1, 1, (dead_letter for _ in range(2500))) == 2500


def test_a_span_read_twice_by_one_attempt_counts_once(cursor: Cursor) -> None:
    tables.create(cursor, STAGING, COLUMNS)
    read = SpanRead(Span("t", 0, 5, 9), 1, 2, 4, 1, 80, LogPosition(8, 3))
    empty = SpanRead(Span("t", 1, 0, 3), 1, 2, 0, 0)
    assert [record_reads(cursor, STAGING, [read, empty]) for _ in range(2)] == [2, 0]
    cursor.execute("SELECT * FROM tidemark_staging.flights_7_reads ORDER BY partition")
    assert cursor.fetchall() == [
        (1, 2, "t", 0, 5, 9, 4, 1, 80, 8, 3),
        (1, 2, "t", 1, 0, 3, 0, 0, 0, None, None),
    ]


def test_attempts_that_decode_a_span_alike_count_as_one(cursor: Cursor) -> None:
    """If they do not, rows of one would stand beside dead letters of the other."""
    tables.create(cursor, STAGING, COLUMNS)
    span, other = Span("t", 0, 5, 9), Span("t", 1, 0, 3)
    before, after = SpanRead(span, 1, 3, 4, 1), SpanRead(span, 1, 5, 4, 0)
    again = SpanRead(span, 1, 7, 4, 1)
    elsewhere = [SpanRead(other, 1, 3, 3, 0), SpanRead(span, 2, 9, 4, 0)]
    record_reads(cursor, STAGING, [before, again, *elsewhere])
    assert set(complete_reads(cursor, STAGING, 1, [span, other])) == {again, elsewhere[0]}
    record_reads(cursor, STAGING, [after])
    assert complete_reads(cursor, STAGING, 1, [other]) == (elsewhere[0],)
    with pytest.raises(ReadsDiffer) as differ:
        complete_reads(cursor, STAGING, 1, [span, other])
    assert differ.value.spans == (span,)
    assert complete_reads(cursor, STAGING, 2, [span]) == (elsewhere[1],)


def test_dropped_tables_are_gone_and_dropping_twice_is_well(cursor: Cursor) -> None:
    for seq in (7, 12):
        tables.create(cursor, Staging.of("flights", seq), COLUMNS)
    tables.create(cursor, Staging.of("flights_2", 3), COLUMNS)
    assert tables.staged_batches(cursor, "flights") == [7, 12]
    assert tables.drop(cursor, STAGING) is True
    assert tables.drop(cursor, STAGING) is True
    assert tables.staged_batches(cursor, "flights") == [12]
    cursor.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'flights_7%'")
    assert cursor.fetchall() == [(0,)]


def test_tables_in_use_are_left_and_the_transaction_goes_on(
    connection: Connection, cursor: Cursor, database: Parameters
) -> None:
    staged(connection, cursor, NUMBERS)
    cursor.execute("SET LOCAL lock_timeout = '7s'")
    with closing(psycopg2.connect(**database)) as zombie:
        zombie.cursor().execute("INSERT INTO tidemark_staging.flights_7_rows VALUES (1, 1, 1)")
        assert tables.drop(cursor, STAGING, wait_ms=20) is False
    cursor.execute("SHOW lock_timeout")
    assert cursor.fetchall() == [("7s",)]
    assert tables.drop(cursor, STAGING) is True
    cursor.execute("SHOW lock_timeout")
    assert cursor.fetchall() == [("7s",)]


def test_only_the_reads_survive_a_crash_of_postgres(connection: Connection, cursor: Cursor) -> None:
    staged(connection, cursor, NUMBERS)
    cursor.execute(
        "SELECT relname, relpersistence FROM pg_class"
        " WHERE relname LIKE 'flights_7%%' AND relkind = 'r'"
    )
    assert dict(cursor.fetchall()) == {
        "flights_7_rows": "u",
        "flights_7_dead_letters": "u",
        "flights_7_reads": "p",
    }
