"""Rows that staging can't hold: their records are named, or become dead letters, and no others."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from sqlalchemy import Engine
from tests.support.databases import administer
from tests.support.desk import TOPIC, Desk
from tests.support.shop import SCHEMA as CHANGES
from tests.support.shop import Shop

from tidemark.ledger.migrate import migrate
from tidemark.model.batch import DeadLetter
from tidemark.model.dead_letters import Limits
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import open_session
from tidemark.postgres.transaction import connect
from tidemark.staging import copy
from tidemark.staging._row_errors import DateHasNoJson, ValueUnstorable
from tidemark.staging.column import MOST_COLUMNS
from tidemark.staging.copy import copy_dead_letters
from tidemark.staging.errors import RecordsLeftOut
from tidemark_local.stack import LocalStack

Database = tuple[Engine, dict[str, Any]]

COORDINATES = [
    ("kafka_topic", pa.string()),
    ("kafka_partition", pa.int32()),
    ("kafka_offset", pa.int64()),
]
UNSTORABLE = {
    "NUL in a text": (pa.string(), "secret", "secret\0"),
    "NUL in JSON": (pa.struct([("a", pa.string())]), {"a": "x"}, {"a": "secret\0"}),
    "a date": (pa.date32(), 0, 2**31 - 1),
    "a date in JSON": (pa.struct([("a", pa.date32())]), {"a": 0}, {"a": 2**30}),
    "a number in JSON": (pa.map_(pa.string(), pa.string()), [("a", "1")], [("\0", "1")]),
}


def desk_of(database: Database, kind: pa.DataType, *, is_told: bool) -> Desk:
    """A region with three offsets in each of two partitions, all of them rows."""
    desk = Desk(*database, schema=pa.schema([*COORDINATES, ("v", kind)]))
    desk.dead_letters_of = lambda span: []
    desk.target_writer = replace(desk.target_writer, refused_become_dead_letters=is_told)
    desk.grow(3, 0)
    desk.grow(3, 1)
    return desk


def rows_of(desk: Desk, values: list[Any]) -> list[pa.RecordBatch]:
    """Of the two partitions, one batch."""
    columns = [[TOPIC] * 6, [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], values]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, desk.schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=desk.schema)]


def work(desk: Desk, values: list[Any], limits: Limits = Limits(1)) -> Any:  # noqa: B008
    """One batch with these values is published."""
    epoch = desk.open(limits=limits).epoch
    batch = desk.must_plan(epoch)
    return desk.publish(batch, desk.stage(batch, desk.join(epoch), rows=rows_of(desk, values)))


def letters(desk: Desk) -> list[tuple[Any, ...]]:
    return desk.sql(
        'SELECT partition, "offset", reason, detail FROM tidemark.dead_letters'
        f" WHERE {desk.here} ORDER BY 1, 2"
    )


@pytest.mark.parametrize("what", UNSTORABLE)
def test_a_record_of_which_postgres_can_store_no_row_is_a_dead_letter(
    ledger_database: Database, what: str
) -> None:
    """G173, B15: the others are published; each is counted, and verify finds the same again."""
    kind, good, bad = UNSTORABLE[what]
    desk = desk_of(ledger_database, kind, is_told=True)
    outcome = work(desk, [good, bad, good, bad, good, good])
    assert (outcome.rows, outcome.dead_letters, outcome.refused) == (4, 2, 2)
    assert desk.rows() == [(0, 0), (0, 2), (1, 1), (1, 2)]
    found = letters(desk)
    assert [one[:3] for one in found] == [(0, 1, "TARGET_REFUSED"), (1, 0, "TARGET_REFUSED")]
    assert "secret" not in found[0][3]
    counts = (
        "SELECT rows_contributed, rows_moved, rows_refused, records_refused, dead_letters_moved"
        f" FROM tidemark.batches WHERE {desk.here}"
    )
    assert desk.sql(counts) == [(6, 4, 2, 2, 2)]
    assert set(desk.offsets().values()) == {3}


@pytest.mark.parametrize("what", UNSTORABLE)
def test_unless_told_the_record_is_named_and_nothing_is_published(
    ledger_database: Database, what: str
) -> None:
    """G173"""
    kind, good, bad = UNSTORABLE[what]
    desk = desk_of(ledger_database, kind, is_told=False)
    with pytest.raises((ValueUnstorable, DateHasNoJson)) as refused:
        work(desk, [good, good, bad, bad, good, good])
    assert refused.value.fields()["record"] == f"{TOPIC}[0]@2"
    assert not refused.value.retry_may_help
    assert "secret" not in str(refused.value)
    assert (desk.rows(), letters(desk)) == ([], [])


def test_a_row_that_is_too_big_is_a_dead_letter_of_its_record(ledger_database: Database) -> None:
    """G173, B15: 8,160 bytes have room in a row whose values can't be stored elsewhere."""
    names = [f"n{n}" for n in range(1100)]
    desk = Desk(
        *ledger_database, schema=pa.schema([*COORDINATES, *((n, pa.int64()) for n in names)])
    )
    desk.dead_letters_of = lambda span: []
    desk.grow(3, 0)
    wide, narrow = dict.fromkeys(names, 2**40), {"n0": 1}
    cells = [
        {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": offset, **row}
        for offset, row in enumerate((narrow, wide, narrow))
    ]
    rows = [pa.RecordBatch.from_pylist(cells, schema=desk.schema)]
    epoch = desk.open(limits=Limits(1)).epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    with pytest.raises(ValueUnstorable) as refused:
        desk.stage(batch, member, rows=rows)
    assert (refused.value.record, refused.value.sqlstate) == (f"{TOPIC}[0]@1", "54000")
    assert "8160" in str(refused.value.limit)
    desk.target_writer = replace(desk.target_writer, refused_become_dead_letters=True)
    desk.publish(batch, desk.stage(batch, member, 1, rows=rows))
    assert (desk.rows(), [one[:2] for one in letters(desk)]) == ([(0, 0), (0, 2)], [(0, 1)])


def test_a_row_longer_than_a_message_may_be_is_refused_alone(
    ledger_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G173: the server would end the session."""
    monkeypatch.setattr(copy, "MOST_ROW_BYTES", 2000)
    desk = desk_of(ledger_database, pa.string(), is_told=True)
    work(desk, ["a", "b" * 3000, "c", "d", "e", "f"])
    assert [one[:2] for one in letters(desk)] == [(0, 1)]


@pytest.mark.parametrize("upsert", [None, Upsert(("n0",))])
def test_as_many_columns_as_are_let_in_are_published(
    ledger_database: Database, upsert: Upsert | None
) -> None:
    """G174: also the tables in which a publish finds last rows and their order have 1,600."""
    names = [f"n{n}" for n in range(MOST_COLUMNS - len(COORDINATES))]
    schema = pa.schema([*COORDINATES, *((name, pa.int16()) for name in names)])
    desk = Desk(*ledger_database, schema=schema, upsert=upsert)
    desk.dead_letters_of = lambda span: []
    desk.sql(f"ALTER TABLE {desk.target} ADD UNIQUE (n1)")
    for numbers in ([(1, 1), (2, 2)], [(2, 3), (1, 2), (2, 1)] if upsert else [(2, 3)]):
        start = sum(desk.ends.values())
        desk.grow(len(numbers))
        epoch = desk.open(limits=Limits(1)).epoch
        cells = [
            {
                "kafka_topic": TOPIC,
                "kafka_partition": 0,
                "kafka_offset": start + at,
                "n0": a,
                "n1": b,
            }
            for at, (a, b) in enumerate(numbers)
        ]
        rows = [pa.RecordBatch.from_pylist(cells, schema=schema)]
        batch = desk.must_plan(epoch)
        desk.publish(batch, desk.stage(batch, desk.join(epoch), rows=rows))
    found = desk.sql(f"SELECT n0, n1 FROM {desk.target} ORDER BY 1, 2")
    assert found == ([(1, 2), (2, 1)] if upsert else [(1, 1), (2, 2), (2, 3)])


def test_too_many_of_them_stop_the_run(ledger_database: Database) -> None:
    """G173, B15"""
    desk = desk_of(ledger_database, pa.string(), is_told=True)
    with pytest.raises(DeadLettersOverLimit) as refused:
        work(desk, ["a", "\0", "\0", "b", "c", "d"], Limits(1, 1))
    assert refused.value.refused == 2
    assert (desk.rows(), letters(desk)) == ([], [])


def test_what_was_left_out_is_never_published_as_a_row_of_nulls(
    ledger_database: Database,
) -> None:
    """G173: as by a driver with another file, or by a replay."""
    desk = desk_of(ledger_database, pa.string(), is_told=True)
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    values = ["a", "\0", "b", "c", "d", "e"]
    contribution = desk.stage(batch, desk.join(epoch), rows=rows_of(desk, values))
    desk.target_writer = replace(desk.target_writer, refused_become_dead_letters=False)
    with pytest.raises(RecordsLeftOut) as refused:
        desk.publish(batch, contribution)
    assert (refused.value.records, desk.rows()) == (1, [])


def test_only_the_winning_attempt_says_what_is_refused(ledger_database: Database) -> None:
    """G173, G12"""
    desk = desk_of(ledger_database, pa.string(), is_told=True)
    epoch = desk.open().epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    desk.stage(batch, member, 0, rows=rows_of(desk, ["a", "\0", "b", "c", "d", "e"]))
    whole = desk.stage(batch, member, 1, rows=rows_of(desk, ["a", "x", "b", "c", "d", "e"]))
    desk.publish(batch, whole)
    assert (len(desk.rows()), letters(desk)) == (6, [])


def test_the_key_of_a_refused_row_has_the_row_before_it(ledger_database: Database) -> None:
    """G173, G11: also where that is of an earlier batch; and a rewind puts it back."""
    shop = Shop(ledger_database, None, CHANGES)
    shop.let_be_refused()
    shop.publish([(1, "a"), (2, "b")])
    shop.publish([(1, "c"), (1, "d\0"), (2, "e\0"), (3, "f")])
    assert shop.rows() == {1: "c", 2: "b", 3: "f"}
    assert [one[:2] for one in shop.dead_letters()] == [(0, 3), (0, 4)]
    shop.desk.rewind(1)
    assert (shop.rows(), shop.dead_letters()) == ({1: "a", 2: "b"}, [])


def one_by_one(desk: Desk, values: list[str], found: list[Any]) -> Iterator[pa.RecordBatch]:
    """Batches of a row each; at each, what the server counts of the sessions' subtransactions."""
    for offset, value in enumerate(values):
        cells = dict(zip(desk.schema.names, (TOPIC, 0, offset, value), strict=True))
        yield pa.RecordBatch.from_pylist([cells], schema=desk.schema)
        found += desk.sql(
            "SELECT max(x.subxact_count), bool_or(x.subxact_overflowed)"
            " FROM pg_stat_get_backend_idset() AS i, pg_stat_get_backend_subxact(i) AS x"
            " WHERE pg_stat_get_backend_dbid(i) ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )


@pytest.mark.parametrize("kept_bytes", [None, 1, 1000])
@pytest.mark.parametrize("is_told", [False, True])
def test_a_session_has_few_subtransactions_however_many_batches_it_stages(
    ledger_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    is_told: bool,
    kept_bytes: int | None,
) -> None:
    """G197: also where rows are refused, and more is staged than savepoints may keep in memory."""
    desk = Desk(*ledger_database, schema=pa.schema([*COORDINATES, ("v", pa.string())]))
    if desk.sql("SELECT to_regproc('pg_stat_get_backend_subxact') IS NULL") == [(True,)]:
        pytest.skip("Postgres counts subtransactions from version 16 on")
    if kept_bytes is not None:
        monkeypatch.setattr(copy, "_KEPT_BYTES", kept_bytes)
    desk.dead_letters_of = lambda span: []
    desk.target_writer = replace(desk.target_writer, refused_become_dead_letters=is_told)
    desk.grow(200, 0)
    bad = {40, 41, 150, 199} if is_told else {199}
    values = ["\0" if offset in bad else "v" for offset in range(200)]
    epoch = desk.open(limits=Limits(1)).epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    found: list[Any] = []
    rows = one_by_one(desk, values, found)
    if is_told:
        desk.publish(batch, desk.stage(batch, member, rows=rows))
        assert {offset for _, offset in desk.rows()} == set(range(200)) - bad
        assert {one[1] for one in letters(desk)} == bad
    else:
        with pytest.raises(ValueUnstorable) as refused:
            desk.stage(batch, member, rows=rows)
        assert refused.value.record == f"{TOPIC}[0]@199"
        table = f'{batch.staging.schema}."{batch.staging.rows}"'
        assert desk.sql(f"SELECT count(*) FROM {table}") == [(0,)]
    assert len(found) >= 199
    most = 0
    if is_told:
        most = copy._MOST_SAVEPOINTS if kept_bytes == 1 else 8
    assert max(count for count, _ in found) <= most < 64
    assert not any(overflowed for _, overflowed in found)


@pytest.fixture
def latin(stack: LocalStack) -> Iterator[Database]:
    """A migrated database that is not UTF-8."""
    name = f"latin_{uuid4().hex[:12]}"
    owner = stack.postgres.parameters("warehouse")
    made = "CREATE DATABASE {} OWNER {} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    administer(stack.postgres, made, name, owner["user"])
    engine = connect(owner | {"dbname": name})
    migrate(engine)
    yield engine, owner | {"dbname": name}
    engine.dispose()
    administer(stack.postgres, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


@pytest.mark.parametrize("is_told", [False, True])
def test_a_letter_that_the_database_lacks_costs_its_record_alone(
    latin: Database, is_told: bool
) -> None:
    """G173, B15: and the encoding is named."""
    desk = desk_of(latin, pa.string(), is_told=is_told)
    values = ["é", "zł", "x", "y", "z", "ü"]
    if is_told:
        work(desk, values)
        [(*where, detail)] = letters(desk)
        assert (where, "LATIN1" in detail) == ([0, 1, "TARGET_REFUSED"], True)
        assert desk.sql(f"SELECT v FROM {desk.target} WHERE kafka_partition = 0") == [
            ("é",),
            ("x",),
        ]
    else:
        with pytest.raises(ValueUnstorable) as refused:
            work(desk, values)
        assert (refused.value.encoding, refused.value.record) == ("LATIN1", f"{TOPIC}[0]@1")


def test_a_dead_letter_with_letters_that_the_database_lacks_is_kept(latin: Database) -> None:
    """G173, B15: a decoder's reason quotes what it found, and a header has any name."""
    desk = desk_of(latin, pa.string(), is_told=False)
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    desk.stage(batch, desk.join(epoch), rows=[])
    odd = DeadLetter(TOPIC, 0, 0, 1, b"", b"", (("ł é", b"v"),), "WRONG_TYPE", "'ł é' is no int")
    with closing(open_session(desk.warehouse)) as session, session, session.cursor() as cursor:
        copy_dead_letters(cursor, batch.staging, 9, 9, [odd])
        cursor.execute(
            "SELECT headers->0->>'key', detail"
            f' FROM {batch.staging.schema}."{batch.staging.dead_letters}"'
        )
        assert cursor.fetchall() == [(r"\u0142 é", r"'\u0142 é' is no int")]
