"""COPY into the staging tables: streamed, all or nothing, honest about what went wrong."""

import weakref
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.support.flights_table import SCHEMA, STAGING, batch
from tests.support.only import copy_only

from tidemark.errors import SchemaMismatch
from tidemark.model.batch import DeadLetter
from tidemark.postgres.errors import StagingDiscarded
from tidemark.postgres.session import Connection, Cursor
from tidemark.staging import tables
from tidemark.staging._row_errors import DateHasNoJson, ValueUnstorable
from tidemark.staging.columns import columns_of
from tidemark.staging.copy import copy_dead_letters

NUMBERS = pa.schema([("n", pa.int64())])


def staged(connection: Connection, cursor: Cursor, schema: pa.Schema) -> None:
    tables.create(cursor, STAGING, columns_of(schema))
    connection.commit()


def numbers(start: int, end: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, end), pa.int64())], schema=NUMBERS)


def count(cursor: Cursor, table: str = STAGING.rows) -> int:
    cursor.execute(f"SELECT count(*) FROM tidemark_staging.{table}")
    return int(cursor.fetchall()[0][0])


@pytest.mark.parametrize("batches", [[], [numbers(0, 0)]])
def test_no_rows_are_no_error(
    connection: Connection, cursor: Cursor, batches: list[pa.RecordBatch]
) -> None:
    staged(connection, cursor, NUMBERS)
    assert copy_only(connection, STAGING, iter(batches), NUMBERS, member=1, attempt=1) == 0


def test_only_one_batch_is_alive_at_a_time(connection: Connection, cursor: Cursor) -> None:
    staged(connection, cursor, NUMBERS)
    alive: list[weakref.ref[pa.RecordBatch]] = []
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal alive, most
        for i in range(200):
            alive = [ref for ref in alive if ref() is not None]
            most = max(most, len(alive))
            made = numbers(i * 10_000, (i + 1) * 10_000)
            alive.append(weakref.ref(made))
            yield made
            del made

    assert copy_only(connection, STAGING, batches(), NUMBERS, member=1, attempt=1) == 2_000_000
    assert most <= 1  # the one that the stream has just encoded


def resident_kb() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_memory_does_not_grow_with_the_rows(connection: Connection, cursor: Cursor) -> None:
    """S6."""
    staged(connection, cursor, SCHEMA)
    many = pa.Table.from_batches([batch()] * 5000).combine_chunks().to_batches()[0]

    def peak_of(batches: int) -> int:
        seen = []

        def sampled() -> Iterator[pa.RecordBatch]:
            for _ in range(batches):
                yield many
                seen.append(resident_kb())

        copy_only(connection, STAGING, sampled(), SCHEMA, member=1, attempt=1)
        return max(seen)

    few = peak_of(3)
    assert peak_of(60) - few < 20_000  # the 300,000 rows are 50 MB on the wire


class Odd(Exception):
    """What nobody but the iterator knows."""


@pytest.mark.parametrize("error", [Odd("mine"), KeyboardInterrupt(), OSError(5)])
def test_what_the_iterator_raises_comes_out_and_nothing_stays(
    connection: Connection, cursor: Cursor, error: BaseException
) -> None:
    staged(connection, cursor, NUMBERS)

    def batches() -> Iterator[pa.RecordBatch]:
        yield numbers(0, 50_000)
        yield numbers(50_000, 100_000)
        raise error

    with pytest.raises(type(error)) as raised:
        copy_only(connection, STAGING, batches(), NUMBERS, member=1, attempt=1)
    assert raised.value is error
    assert count(cursor) == 0
    connection.rollback()
    assert copy_only(connection, STAGING, iter([numbers(0, 1)]), NUMBERS, member=1, attempt=2) == 1


def test_a_schema_that_cannot_be_written_is_refused_before_any_batch(
    connection: Connection,
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a batch was taken")
        yield

    with pytest.raises(SchemaMismatch):
        copy_only(
            connection,
            STAGING,
            batches(),
            pa.schema([("d", pa.duration("us"))]),
            member=1,
            attempt=1,
        )


@pytest.mark.parametrize(
    ("kind", "value", "sqlstate"),
    [
        (pa.string(), "secret\0", "22021"),
        (pa.date32(), 2**31 - 1, "22008"),
        (pa.struct([("a", pa.string())]), {"a": "secret\0"}, "22P05"),
        (pa.struct([("a", pa.date32())]), {"a": 2**30}, None),  # no year of four digits
    ],
)
def test_a_value_that_postgres_cannot_hold_names_its_column_only(
    connection: Connection, cursor: Cursor, kind: pa.DataType, value: object, sqlstate: str | None
) -> None:
    schema = pa.schema([("ba", pa.int32()), ("bad", kind)])
    staged(connection, cursor, schema)
    rows = pa.record_batch([pa.array([1], pa.int32()), pa.array([value], kind)], schema=schema)
    with pytest.raises(ValueUnstorable if sqlstate else DateHasNoJson) as refusal:
        copy_only(connection, STAGING, iter([rows]), schema, member=1, attempt=1)
    found = refusal.value.fields()
    assert (found["column"], found.get("sqlstate")) == ("bad", sqlstate)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert count(cursor) == 0


def test_a_zombie_that_stages_for_a_discarded_batch_is_told(
    connection: Connection, cursor: Cursor
) -> None:
    with pytest.raises(StagingDiscarded):
        copy_only(connection, STAGING, iter([numbers(0, 1)]), NUMBERS, member=1, attempt=1)
    with connection, pytest.raises(StagingDiscarded):
        copy_dead_letters(
            cursor, STAGING, 1, 1, [DeadLetter("t", 0, 0, None, None, b"", (), "", "")]
        )
