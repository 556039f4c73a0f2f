"""The target table: made when absent, refused where it could not keep rows."""

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest
from tests.support.flights_table import (
    COLUMNS,
    FITTING,
    STAGING,
    TARGET,
    Parameters,
    publish_a_row,
)

from tidemark.errors import Refused
from tidemark.model.errors import TableNameMalformed, TableNameTooLong
from tidemark.postgres.session import Connection, Cursor
from tidemark.staging import tables
from tidemark.staging.catalog import find_interfering
from tidemark.staging.columns import columns_of
from tidemark.staging.errors import (
    StagingHasOtherColumns,
    TargetHasRules,
    TargetHidesRows,
    TargetIsNoTable,
    TargetIsUnlogged,
    TargetRightMissing,
    TargetSchemaMissing,
)
from tidemark.staging.target import Target, ensure

VERSIONS = ("18", "15")


def test_an_absent_table_is_made_to_fit(connection: Connection, cursor: Cursor) -> None:
    assert ensure(cursor, TARGET, COLUMNS) is True
    assert ensure(cursor, TARGET, COLUMNS) is False
    publish_a_row(connection, cursor)
    cursor.execute(
        "SELECT id, delay, carrier, price::text, tags, note, batch_seq FROM public.flights"
    )
    assert cursor.fetchall() == [(7, -3, "UA", "1.25", [1, None], {"a": 1}, 7)]


def test_a_made_table_has_an_index_on_batch_seq(cursor: Cursor) -> None:
    ensure(cursor, TARGET, COLUMNS)
    cursor.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'flights'")
    assert "(batch_seq)" in "".join(row[0] for row in cursor.fetchall())


def test_names_are_taken_exactly(connection: Connection, cursor: Cursor) -> None:
    target = Target.parse('public."Flights; ""2"""')
    columns = columns_of(pa.schema([('a "b"', pa.int32()), ("select", pa.string())]))
    ensure(cursor, target, columns)
    assert ensure(cursor, target, columns) is False
    cursor.execute('SELECT "a ""b""", "select", batch_seq FROM public."Flights; ""2"""')


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("public.flights", Target("public", "flights")),
        ("Public.Flights", Target("public", "flights")),
        ('"Public"."a.b"', Target("Public", "a.b")),
        ('public."say ""hi"""', Target("public", 'say "hi"')),
    ],
)
def test_a_target_is_parsed_as_sql_would(text: str, target: Target) -> None:
    assert Target.parse(text) == target
    assert Target.parse(str(target)) == target


@pytest.mark.parametrize(
    "text",
    ["flights", "a.b.c", "public.", 'public."flights', "public.fl-ights", "1a.b", f"a.{'b' * 64}",
     'a."' + "ü" * 32 + '"', "public.flights; DROP TABLE x", ""],
)  # fmt: skip
def test_what_is_no_table_name_is_refused(text: str) -> None:
    with pytest.raises((TableNameMalformed, TableNameTooLong)):
        Target.parse(text)


def test_a_partitioned_table_takes_the_rows(connection: Connection, cursor: Cursor) -> None:
    items = ", ".join(f"{name} {kind}" for name, kind in FITTING.items())
    cursor.execute(f"CREATE TABLE public.flights ({items}) PARTITION BY LIST (carrier)")
    cursor.execute(
        "CREATE TABLE public.flights_ua PARTITION OF public.flights FOR VALUES IN ('UA')"
    )
    assert ensure(cursor, TARGET, COLUMNS) is False
    publish_a_row(connection, cursor)


@pytest.mark.parametrize(
    ("ddl", "case"),
    [
        ("CREATE VIEW public.flights AS SELECT 1", TargetIsNoTable),
        ("CREATE MATERIALIZED VIEW public.flights AS SELECT 1", TargetIsNoTable),
        ("CREATE SEQUENCE public.flights", TargetIsNoTable),
        ("CREATE UNLOGGED TABLE public.flights (batch_seq bigint)", TargetIsUnlogged),
    ],
)
def test_what_cannot_keep_rows_is_refused(cursor: Cursor, ddl: str, case: type[Refused]) -> None:
    cursor.execute(ddl)
    with pytest.raises(case):
        ensure(cursor, TARGET, COLUMNS)


def test_hidden_rows_are_refused_with_what_would_help(cursor: Cursor) -> None:
    """B5: rows that a policy hides can't be counted or removed."""
    ensure(cursor, TARGET, COLUMNS)
    cursor.execute("ALTER TABLE public.flights ENABLE ROW LEVEL SECURITY")
    assert ensure(cursor, TARGET, COLUMNS) is False, "policies do not apply to an owner"
    cursor.execute("ALTER TABLE public.flights FORCE ROW LEVEL SECURITY")
    with pytest.raises(TargetHidesRows):
        ensure(cursor, TARGET, COLUMNS)


def test_a_rule_that_replaces_inserts_is_refused(cursor: Cursor) -> None:
    """B5."""
    ensure(cursor, TARGET, COLUMNS)
    cursor.execute("CREATE RULE copy AS ON INSERT TO public.flights DO ALSO NOTHING")
    assert ensure(cursor, TARGET, COLUMNS) is False
    cursor.execute("CREATE RULE away AS ON INSERT TO public.flights DO INSTEAD NOTHING")
    with pytest.raises(TargetHasRules) as refusal:
        ensure(cursor, TARGET, COLUMNS)
    assert [*map(str, refusal.value.rules)] == ["away"]
    cursor.execute(str(refusal.value).partition("run: ")[2])
    assert ensure(cursor, TARGET, COLUMNS) is False


def test_triggers_that_may_keep_rows_are_named(cursor: Cursor) -> None:
    """B5: of the table and of its partitions; what is disabled or comes after is no danger."""
    items = ", ".join(f"{name} {kind}" for name, kind in FITTING.items())
    cursor.execute(
        f"CREATE TABLE public.flights ({items}) PARTITION BY LIST (carrier);"
        "CREATE TABLE public.flights_ua PARTITION OF public.flights FOR VALUES IN ('UA');"
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    )
    for name, when, table in (
        ("whole", "BEFORE INSERT OR UPDATE", "flights"),
        ("part", "BEFORE INSERT OR DELETE", "flights_ua"),
        ("after", "AFTER INSERT", "flights"),
        ("off", "BEFORE INSERT", "flights_ua"),
    ):
        cursor.execute(
            f"CREATE TRIGGER {name} {when} ON public.{table} FOR EACH ROW EXECUTE FUNCTION f()"
        )
    cursor.execute("ALTER TABLE public.flights_ua DISABLE TRIGGER off")
    found = find_interfering(cursor, "public", "flights", "INSERT")
    assert found == ["trigger part", "trigger whole"]
    assert find_interfering(cursor, "public", "flights", "DELETE") == ["trigger part"]


@pytest.mark.parametrize(
    ("ddl", "case"),
    [
        ("CREATE SCHEMA s; REVOKE ALL ON SCHEMA s FROM CURRENT_USER", TargetRightMissing),
        ("SELECT 1", TargetSchemaMissing),
        (
            "CREATE SCHEMA s; CREATE TABLE s.t (a integer, batch_seq bigint);"
            "REVOKE INSERT ON s.t FROM CURRENT_USER; REVOKE USAGE ON SCHEMA s FROM CURRENT_USER",
            TargetRightMissing,
        ),
    ],
)  # fmt: skip
def test_a_missing_right_is_refused_with_its_grant(
    connection: Connection, cursor: Cursor, ddl: str, case: type[Refused]
) -> None:
    cursor.execute(ddl)
    columns = columns_of(pa.schema([("a", pa.int32())]))
    with pytest.raises(case) as refusal:
        ensure(cursor, Target("s", "t"), columns)
    cursor.execute(str(refusal.value).partition("run: ")[2].partition("; or")[0])
    ensure(cursor, Target("s", "t"), columns)


def at_once(number: int, act: Callable[[], object]) -> list[object]:
    """Run `act` in threads that start together; return results and exceptions."""
    outcomes: list[object] = []
    barrier = threading.Barrier(number)

    def run() -> None:
        barrier.wait(300)
        try:
            outcomes.append(act())
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return outcomes


@pytest.mark.usefixtures("connection")
def test_callers_at_once_make_one_table(database: Parameters) -> None:
    def ensure_once() -> bool:
        with closing(psycopg2.connect(**database)) as connection, connection:
            return ensure(connection.cursor(), TARGET, COLUMNS)

    assert sorted(map(str, at_once(6, ensure_once))) == ["False"] * 5 + ["True"]


@pytest.mark.usefixtures("connection")
def test_members_at_once_make_one_set_of_staging_tables(database: Parameters) -> None:
    def create_once() -> None:
        with closing(psycopg2.connect(**database)) as connection, connection:
            tables.create(connection.cursor(), STAGING, COLUMNS)

    assert at_once(6, create_once) == [None] * 6


def test_members_with_other_columns_are_refused(cursor: Cursor) -> None:
    tables.create(cursor, STAGING, COLUMNS)
    with pytest.raises(StagingHasOtherColumns):
        tables.create(cursor, STAGING, COLUMNS[:-1])
