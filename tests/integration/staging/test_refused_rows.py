"""Rows that the target refuses become dead letters, the others are published with their batch."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine
from tests.support.desk import TOPIC, Desk
from tests.support.produce import good, produce
from tests.support.world import World, staging

from tidemark.errors import TooManyDeadLetters, Unreachable
from tidemark.model.batch import ONLY, Batch
from tidemark.model.dead_letters import Limits
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.postgres.errors import PostgresRightMissing, StagedRowsGone
from tidemark.postgres.session import Cursor
from tidemark.protocol.publish import Result
from tidemark.runs.member import job_of
from tidemark.runs.region import region_of
from tidemark.staging import refused, tables
from tidemark.staging.columns import columns_of
from tidemark.staging.errors import (
    RefusedRowsNotAllFound,
    RefusedRowsOfNoRecord,
    RowRefused,
    RowsLackCoordinates,
    TargetDoesNotFit,
)
from tidemark.staging.move import Appending
from tidemark.staging.refused import Places, Search, missing_coordinates
from tidemark.staging.target import Target
from tidemark.verify.verify import verify

SCHEMA = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("v", pa.int32()),
    ]
)
Row = tuple[int, int, int | None]
"""Partition, offset, value."""


CODES = ["54000", "45000", "P0002", "38001", "42501"]


def rows_of(*rows: Row, topic: str = TOPIC) -> list[pa.RecordBatch]:
    """Rows as a transform returns them."""
    cells = [dict(zip(SCHEMA.names, (topic, *row), strict=True)) for row in rows]
    return [pa.RecordBatch.from_pylist(cells, schema=SCHEMA)]


GOOD: list[Row] = [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 10), (1, 1, 11), (1, 2, 12)]


@pytest.fixture
def desk(ledger_database: tuple[Engine, dict[str, Any]]) -> Desk:
    """A region with ten offsets in each of two partitions, two of them dead letters."""
    desk = Desk(*ledger_database, schema=SCHEMA)
    desk.grow(10, 0)
    desk.grow(10, 1)
    desk.target_writer = replace(desk.target_writer, refused_become_dead_letters=True)
    return desk


def work(desk: Desk, rows: list[Row], limits: Limits = Limits()) -> Any:  # noqa: B008
    """One batch with these rows is published, or refused."""
    epoch = desk.open(limits=limits).epoch
    batch = desk.must_plan(epoch)
    return desk.publish(batch, desk.stage(batch, desk.join(epoch), rows=rows_of(*rows)))


def constrain(desk: Desk, definition: str) -> None:
    desk.sql(f"ALTER TABLE {desk.target} ADD CONSTRAINT the_guard {definition}")


def in_target(desk: Desk) -> list[Row]:
    return desk.sql(f"SELECT kafka_partition, kafka_offset, v FROM {desk.target} ORDER BY 1, 2, 3")


def refused_dead_letters(desk: Desk) -> list[tuple[Any, ...]]:
    return desk.sql(
        'SELECT partition, "offset", reason, detail, refused_rows FROM tidemark.dead_letters'
        f" WHERE {desk.here} AND refused_rows IS NOT NULL ORDER BY 1, 2"
    )


def test_refused_rows_are_dead_letters_of_their_batch(desk: Desk) -> None:
    """B15: with coordinates, the constraint, and the row as the transform made it."""
    constrain(desk, "CHECK (v <> 1 AND v <> 12)")
    outcome = work(desk, GOOD)
    assert (outcome.rows, outcome.dead_letters, outcome.refused) == (4, 4, 2)
    assert in_target(desk) == [row for row in GOOD if row[2] not in (1, 12)]
    first, second = refused_dead_letters(desk)
    assert (first[:3], second[:3]) == ((0, 1, "TARGET_REFUSED"), (1, 2, "TARGET_REFUSED"))
    assert first[3].startswith("constraint the_guard, table public.")
    assert first[3].endswith("(SQLSTATE 23514 CHECK_VIOLATION)")
    where = {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": 1}
    assert first[4] == [where | {"v": 1}]
    assert desk.dead_letters() == [(0, 1), (0, 3), (1, 2), (1, 3)]
    assert set(desk.offsets().values()) == {10}
    counts = (
        "SELECT rows_contributed, rows_moved, rows_refused, records_refused,"
        " dead_letters_contributed, dead_letters_moved FROM tidemark.batches WHERE "
    )
    assert desk.sql(counts + desk.here) == [(6, 4, 2, 2, 2, 4)]


def test_unless_told_a_refused_row_stops_the_run(desk: Desk) -> None:
    desk.target_writer = replace(desk.target_writer, refused_become_dead_letters=False)
    constrain(desk, "CHECK (v <> 1)")
    with pytest.raises(RowRefused) as named:
        work(desk, GOOD)
    assert named.value.record == f"{TOPIC}[0]@1"
    assert (in_target(desk), desk.dead_letters()) == ([], [])


WIDE = """
CREATE OR REPLACE FUNCTION public.wide(v int) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT string_agg(md5(n::text), '') FROM generate_series(1, CASE v WHEN 1 THEN 200 ELSE 1 END) n
$$;
CREATE INDEX ON {target} (public.wide(v))
"""
"""An index whose entry for v = 1 is too long."""

RAISES = """
CREATE OR REPLACE FUNCTION public.raises() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF to_jsonb(coalesce(NEW, OLD)) ->> 'v' = '1' THEN
        RAISE 'secret' USING ERRCODE = TG_ARGV[0];
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER raises BEFORE {event} ON {target}
FOR EACH ROW EXECUTE FUNCTION public.raises('{code}')
"""


def guarded(desk: Desk, code: str, event: str = "INSERT") -> None:
    """The target answers with the code where v is 1."""
    guard = WIDE if code == "54000" else RAISES
    desk.sql(guard.format(target=desk.target, code=code, event=event))


@pytest.mark.parametrize("becomes_dead_letter", [False, True], ids=["stop", "dead_letter"])
@pytest.mark.parametrize("code", CODES)
def test_a_target_may_refuse_by_any_code(desk: Desk, code: str, becomes_dead_letter: bool) -> None:
    """B16: an index, or a trigger with a code of its own, is no outage of the server."""
    desk.target_writer = replace(
        desk.target_writer, refused_become_dead_letters=becomes_dead_letter
    )
    guarded(desk, code)
    if becomes_dead_letter:
        assert work(desk, GOOD).refused == 1
        [(partition, offset, _, said, _)] = refused_dead_letters(desk)
        assert (partition, offset) == (0, 1)
    else:
        with pytest.raises(RowRefused) as caught:
            work(desk, GOOD)
        said = str(caught.value)
        assert caught.value.sqlstate == code
        assert in_target(desk) == []
    assert f"SQLSTATE {code}" in said
    assert "secret" not in said


@pytest.mark.parametrize("code", ["40001", "53100", "57014", "55P03", "58030"])
def test_a_server_in_trouble_refuses_no_row(desk: Desk, code: str) -> None:
    guarded(desk, code)
    with pytest.raises(Unreachable):
        work(desk, GOOD)
    assert (in_target(desk), refused_dead_letters(desk)) == ([], [])


def test_a_statement_that_fails_for_every_row_refuses_none(desk: Desk) -> None:
    """B16: or a table that lost a column would turn its batches into dead letters."""
    desk.sql(f"ALTER TABLE {desk.target} DROP COLUMN v")
    with pytest.raises(TargetDoesNotFit):
        work(desk, GOOD)
    assert refused_dead_letters(desk) == []


def test_a_right_that_is_gone_refuses_no_row(desk: Desk) -> None:
    desk.sql(f"REVOKE INSERT ON {desk.target} FROM CURRENT_USER")
    with pytest.raises(PostgresRightMissing):
        work(desk, GOOD)
    assert refused_dead_letters(desk) == []


@pytest.mark.parametrize("code", ["45000", "P0002", "42501"])
def test_a_rewind_may_be_refused_by_any_code(desk: Desk, code: str) -> None:
    guarded(desk, code, "DELETE")
    work(desk, GOOD)
    with pytest.raises(RowRefused) as caught:
        desk.rewind(0)
    assert "secret" not in str(caught.value)
    assert in_target(desk) == GOOD


def test_a_record_is_either_rows_or_a_dead_letter(desk: Desk) -> None:
    """B15: one of its rows is refused, so all of them stay out, wherever the slices are cut."""
    constrain(desk, "CHECK (v <> 99)")
    three: list[Row] = [(0, 1, 1), (0, 1, 99), (0, 1, 3)]
    outcome = work(desk, [*GOOD[:1], *three, *GOOD[2:]])
    assert (outcome.rows, outcome.refused) == (5, 1)
    assert in_target(desk) == [*GOOD[:1], *GOOD[2:]]
    [(*_, kept)] = refused_dead_letters(desk)
    assert sorted(row["v"] for row in kept) == [1, 3, 99]
    counts = f"SELECT rows_refused, records_refused FROM tidemark.batches WHERE {desk.here}"
    assert desk.sql(counts) == [(3, 1)]


def test_where_nothing_is_refused_nothing_is_searched(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused, "SEARCH_SECONDS", -1.0)
    assert work(desk, GOOD).refused == 0
    assert in_target(desk) == GOOD


def test_a_row_may_refer_to_a_later_one(desk: Desk) -> None:
    """B15: only what the table never takes is set aside; a chain of references takes passes."""
    desk.sql(
        f"ALTER TABLE {desk.target} ADD UNIQUE (v), ADD CHECK (v <> 11), ADD needs int"
        " GENERATED ALWAYS AS (CASE v WHEN 1 THEN 2 WHEN 2 THEN 12 WHEN 10 THEN 11 END) STORED"
        f" REFERENCES {desk.target} (v) DEFERRABLE INITIALLY DEFERRED"
    )
    assert work(desk, GOOD).refused == 2
    assert in_target(desk) == [row for row in GOOD if row[2] not in (10, 11)]
    assert [dead_letter[:2] for dead_letter in refused_dead_letters(desk)] == [(1, 0), (1, 1)]


def test_refused_records_count_with_the_other_dead_letters(desk: Desk) -> None:
    """B15: two by decoding and two by the target are four."""
    constrain(desk, "CHECK (v < 11)")
    with pytest.raises(DeadLettersOverLimit) as caught:
        work(desk, GOOD, Limits(max_count=3))
    assert caught.value.records == 16
    [by_target] = [one for one in caught.value.reasons if "constraint the_guard" in one.text]
    assert by_target.text.startswith("TARGET_REFUSED ")
    assert by_target.count == 2
    assert (in_target(desk), desk.dead_letters(), set(desk.offsets().values())) == ([], [], {0})
    assert work(desk, GOOD, Limits(max_count=4)).result is Result.published


def test_a_search_ends_at_the_limit_and_not_at_the_end_of_the_batch(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B15: a table that refuses everything costs no more than the limit allows."""
    tried: list[int] = []
    at = Places.at

    def counted(self: Places, name: str, some: Any) -> Any:
        tried.append(len(some))
        return at(self, name, some)

    monkeypatch.setattr(Places, "at", counted)
    constrain(desk, "CHECK (v < 0)")
    with pytest.raises(TooManyDeadLetters):
        work(desk, GOOD, Limits(max_count=2))
    assert tried == [3, 1]


def test_a_search_that_takes_too_long_is_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B15: the region is not held for ever."""
    monkeypatch.setattr(refused, "SEARCH_SECONDS", -1.0)
    constrain(desk, "CHECK (v <> 1)")
    with pytest.raises(RefusedRowsNotAllFound):
        work(desk, GOOD)
    assert in_target(desk) == []


@pytest.mark.parametrize("place", [(0, 10), (0, -1), (7, 1), (None, None)])
def test_a_refused_row_that_names_no_record_of_the_batch_stops_the_run(
    desk: Desk, place: tuple[Any, Any]
) -> None:
    constrain(desk, "CHECK (v < 12)")
    with pytest.raises(RefusedRowsOfNoRecord):
        work(desk, [*GOOD[:-1], (*place, 12)])
    assert (in_target(desk), desk.dead_letters()) == ([], [])


@pytest.mark.parametrize(
    ("table", "which", "constraint"),
    [
        ("rows", "v = 11", "moved_rows_equal_contributed"),
        ("dead_letters", "partition = 1", "moved_dead_letters_equal_contributed"),
    ],
)
def test_staged_rows_that_are_gone_are_no_refused_ones(
    desk: Desk, table: str, which: str, constraint: str
) -> None:
    """B15, H1: moved and refused rows together are the contributed ones; so are dead letters."""
    constrain(desk, "CHECK (v <> 1)")
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    contribution = desk.stage(batch, desk.join(epoch), rows=rows_of(*GOOD))
    staged = f"{batch.staging.schema}.{getattr(batch.staging, table)}"
    desk.sql(f"DELETE FROM {staged} WHERE {which}")
    with pytest.raises(StagedRowsGone):
        desk.publish(batch, contribution)
    assert (in_target(desk), desk.dead_letters()) == ([], [])


def test_a_rewind_takes_refused_records_back_too(desk: Desk) -> None:
    """B4, B15: and the same records may be rows the next time."""
    constrain(desk, "CHECK (v <> 1)")
    work(desk, GOOD)
    desk.rewind(0)
    assert (in_target(desk), desk.dead_letters()) == ([], [])
    desk.sql(f"ALTER TABLE {desk.target} DROP CONSTRAINT the_guard")
    assert work(desk, GOOD).refused == 0
    assert in_target(desk) == GOOD


# What a table may hold: its definition, and whether it takes a record's values beside those there.
Values = list[int | None]


def alone(is_good: Any) -> Any:
    return lambda values, there: all(map(is_good, values))


def once(values: Values, there: Values) -> bool:
    known = [v for v in [*values, *there] if v is not None]
    return len(known) == len(set(known))


def apart(values: Values, there: Values) -> bool:
    known = sorted(v for v in [*values, *there] if v is not None)
    return all(second - first > 1 for first, second in itertools.pairwise(known))


def referred(values: Values, there: Values) -> bool:
    known = [*values, *there]
    return once(values, there) and all(v in (None, 0) or v - 1 in known for v in values)


COLUMNS = "kafka_topic text, kafka_partition int, kafka_offset bigint, batch_seq bigint"
RAISING = (
    "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF NEW.v = 2 THEN RAISE 'no %', NEW.v; END IF; RETURN NEW; END $$;"
)
KINDS: dict[str, tuple[str, Any]] = {
    "check": (f"CREATE TABLE public.t ({COLUMNS}, v int CHECK (v < 3))",
              alone(lambda v: v is None or v < 3)),
    "not null": (f"CREATE TABLE public.t ({COLUMNS}, v int NOT NULL)",
                 alone(lambda v: v is not None)),
    "unique": (f"CREATE TABLE public.t ({COLUMNS}, v int UNIQUE)", once),
    "deferred": (f"CREATE TABLE public.t ({COLUMNS}, v int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
                 once),
    "foreign key": ("CREATE TABLE public.known (v int PRIMARY KEY);"
                    "INSERT INTO public.known VALUES (0), (3);"
                    f"CREATE TABLE public.t ({COLUMNS},"
                    " v int REFERENCES public.known DEFERRABLE INITIALLY DEFERRED)",
                    alone(lambda v: v in (None, 0, 3))),
    "exclusion": (f"CREATE TABLE public.t ({COLUMNS}, v int, EXCLUDE USING gist"
                  " (int4range(v, v + 2) WITH &&) WHERE (v IS NOT NULL))", apart),
    "trigger": (f"CREATE TABLE public.t ({COLUMNS}, v int); {RAISING} CREATE TRIGGER no"
                " BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.no()",
                alone(lambda v: v != 2)),
    "late trigger": (f"CREATE TABLE public.t ({COLUMNS}, v int); {RAISING} CREATE CONSTRAINT"
                     " TRIGGER no AFTER INSERT ON public.t DEFERRABLE INITIALLY DEFERRED"
                     " FOR EACH ROW EXECUTE FUNCTION public.no()",
                     alone(lambda v: v != 2)),
    "partition": (f"CREATE TABLE public.t ({COLUMNS}, v int) PARTITION BY LIST (v);"
                  "CREATE TABLE public.some PARTITION OF public.t FOR VALUES IN (0, 1)",
                  alone(lambda v: v in (0, 1))),
    "itself": (f"CREATE TABLE public.t ({COLUMNS}, v int UNIQUE,"
               " w int GENERATED ALWAYS AS (nullif(v, 0) - 1) STORED REFERENCES public.t (v))",
               referred),
    "value": (f"CREATE TABLE public.t ({COLUMNS}, v int, w int GENERATED ALWAYS AS (6 / v) STORED)",
              alone(lambda v: v != 0)),
}  # fmt: skip


def survivors(rows: list[Row], takes: Any) -> list[Row]:
    """What record after record gives, in order of coordinates: the first of two rivals stays."""
    kept: list[Row] = []
    for place in sorted({row[:2] for row in rows}):
        of_record = [row for row in rows if row[:2] == place]
        if takes([row[2] for row in of_record], [row[2] for row in kept]):
            kept += of_record
    return kept


ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 9), st.none() | st.integers(0, 5)), max_size=25
)


@pytest.fixture
def staged(desk: Desk) -> Iterator[tuple[Cursor, Batch]]:
    """A planned batch with its staging tables, and a cursor in a transaction of the test's own."""
    batch = desk.must_plan(desk.open().epoch)
    with closing(psycopg2.connect(**desk.warehouse)) as connection, connection.cursor() as cursor:
        tables.create(cursor, batch.staging, desk.columns)
        connection.commit()
        yield cursor, batch


def test_rows_and_dead_letters_are_all_that_was_staged_whatever_the_table_refuses(
    staged: tuple[Cursor, Batch],
) -> None:
    """B15: the same records survive however they lie in staging and wherever slices are cut."""
    cursor, batch = staged
    columns, target = columns_of(SCHEMA), Target("public", "t")
    staging = f"{batch.staging.schema}.{batch.staging.rows}"

    @given(st.sampled_from(sorted(KINDS)), ROWS)
    def holds(kind: str, rows: list[Row]) -> None:
        table, takes = KINDS[kind]
        cursor.execute(table)
        for attempt, row in enumerate(rows):
            values = (1, attempt % 2, TOPIC, *row)
            cursor.execute(f"INSERT INTO {staging} VALUES (%s, %s, %s, %s, %s, %s)", values)
        winners = [(1, 0), (1, 1)]
        moving = Appending(cursor, batch, target=target, columns=columns, winners=winners)
        moved = Search(cursor, batch, [moving], winners, None).move()[ONLY]
        cursor.execute("SELECT kafka_partition, kafka_offset, v FROM public.t")
        there = cursor.fetchall()
        cursor.execute(
            "SELECT partition, \"offset\", (r ->> 'v')::int FROM tidemark.dead_letters,"
            " jsonb_array_elements(refused_rows) r WHERE region = %s",
            (batch.region,),
        )
        dead_letters = cursor.fetchall()
        cursor.connection.rollback()
        if kind != "itself":  # records that need each other stand if they share a slice
            assert ordered(there) == ordered(survivors(rows, takes))
        for place in {row[:2] for row in dead_letters}:
            refused = [row[2] for row in dead_letters if row[:2] == place]
            assert not takes(refused, [row[2] for row in there])
        assert ordered(there + dead_letters) == ordered(rows)
        counts = (len(there), len(dead_letters), len({row[:2] for row in dead_letters}))
        assert (moved.rows, moved.refused_rows, moved.refused_records) == counts

    holds()


def ordered(rows: list[Row]) -> list[Any]:
    return sorted(rows, key=lambda row: (row[0], row[1], row[2] is None, row[2] or 0))


def test_a_run_sets_refused_records_aside_and_verify_knows_them(world: World) -> None:
    """B5, B15, B16: from the file to the proof; a dead letter that was made up is found."""
    world.settings = {"target": {"on_refused": "dead_letter"}}
    world.produce(1)
    world.run("first")
    world.sql("ALTER TABLE public.records ADD CONSTRAINT the_guard CHECK (value <> 'x')")
    produce(world.kafka, world.topic, [good("x"), good("y"), b"bad"])
    closed = world.run("second")
    assert (closed.rows, closed.dead_letters, closed.records) == (1, 2, 3)
    assert staging(world) == []
    assert (world.rows(), world.dead_letters()) == ([(0, 0), (0, 2)], [(0, 1), (0, 3)])

    def verdicts() -> list[str]:
        report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
        return [proof.verdict for proof in report.batches]

    assert verdicts() == ["equal", "equal"]
    another = '[{"value": "z"}]'
    world.sql("UPDATE tidemark.dead_letters SET refused_rows = %s WHERE reason = 'TARGET_REFUSED'",
              (another,))  # fmt: skip
    assert verdicts() == ["equal", "differs"]


def test_refused_rows_that_are_too_long_are_cut_and_verify_knows_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G121: a text that begins them, their size and hash; none of a batch that has no room."""
    monkeypatch.setattr(refused, "MOST_A_BATCH", 70)
    world.settings = {
        "target": {"on_refused": "dead_letter"},
        "dead_letters": {"max_bytes": 30, "max_ratio": 1},
    }
    world.produce(1)
    world.run("first")
    world.sql("ALTER TABLE public.records ADD CONSTRAINT the_guard CHECK (value NOT LIKE 'x%%')")
    produce(world.kafka, world.topic, [good("xü"), good("x"), good("x")])
    world.run("second")
    found = world.sql(
        "SELECT jsonb_typeof(refused_rows), octet_length(refused_rows #>> '{}') , whole_bytes > 60,"
        ' octet_length(hash) FROM tidemark.dead_letters ORDER BY "offset"'
    )
    assert [(kind, size <= 30, *rest) for kind, size, *rest in found] == [
        ("string", True, True, 32)
    ] * 3
    assert [size > 0 for _, size, *_ in found] == [True, True, False]

    def verdicts() -> list[str]:
        report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
        return [proof.verdict for proof in report.batches]

    assert verdicts() == ["equal", "equal"]
    world.sql("UPDATE tidemark.dead_letters SET hash = sha256('') WHERE \"offset\" = 2")
    assert verdicts() == ["equal", "differs"]


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([field for field in SCHEMA if field.name != "kafka_offset"]),
        SCHEMA.set(2, pa.field("kafka_offset", pa.string())),
    ],
    ids=["dropped", "changed"],
)
def test_without_coordinates_the_setting_is_refused_at_the_start(
    world: World, schema: pa.Schema
) -> None:
    """B15: before anything is planned."""

    class Executor:
        def output_schemas(self) -> dict[str, pa.Schema]:
            return {ONLY: schema}

        def close(self) -> None: ...

    world.settings = {"target": {"on_refused": "dead_letter"}}
    with (
        region_of(world.pipeline, world.connections) as region,
        pytest.raises(RowsLackCoordinates) as caught,
    ):
        job_of(region, 1, lambda _: Executor())  # type: ignore[arg-type,return-value]
    assert [*map(str, caught.value.missing)] == ["kafka_offset"]
    assert missing_coordinates(columns_of(SCHEMA)) == []
