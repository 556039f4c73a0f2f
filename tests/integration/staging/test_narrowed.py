"""A column that is narrowed in mid-run, or between undo and rewind: no value changes unsaid."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Engine
from tests.integration.staging.test_parts import late
from tests.support.counter import LINES, ORDERS, Counter
from tests.support.desk import TOPIC, Desk
from tests.support.shop import SCHEMA as SHOP
from tests.support.shop import Shop

from tidemark.model.batch import Batch, Contribution
from tidemark.postgres.transaction import transaction
from tidemark.staging.columns import columns_of
from tidemark.staging.errors import KeptValuesAltered, TargetDoesNotFit
from tidemark.staging.target_writer import TargetWriter

Database = tuple[Engine, dict[str, Any]]

WHEN = datetime(2026, 1, 1, 12, 0, 0, 654321, UTC)
VALUES: dict[str, tuple[pa.DataType, object]] = {
    "whole": (pa.int64(), 2**40),
    "amount": (pa.decimal128(12, 4), Decimal("1.2399")),
    "share": (pa.float64(), 1.6),
    "word": (pa.string(), "long "),
    "at": (pa.timestamp("us", "UTC"), WHEN),
    "local": (pa.timestamp("us"), WHEN.replace(tzinfo=None)),
    "day": (pa.date32(), date(2026, 1, 1)),
    "shares": (pa.list_(pa.decimal128(5, 3)), [Decimal("1.234")]),
    "instants": (pa.list_(pa.timestamp("us", "UTC")), [WHEN]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])


def one_row() -> pa.RecordBatch:
    """A value of each type."""
    arrays = [pa.array([value], kind) for kind, value in VALUES.values()]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def staged(desk: Desk) -> tuple[Batch, Contribution]:
    """A batch with one row, ready to be published."""
    desk.dead_letters_of = lambda span: []
    desk.grow(1)
    batch = desk.must_plan(desk.open(f"run {desk.epoch}").epoch)
    return batch, desk.stage(batch, desk.join(desk.epoch), rows=[one_row()])


@pytest.mark.parametrize(
    ("column", "action"),
    [
        ("whole", "ALTER whole TYPE double precision"),
        ("amount", "ALTER amount TYPE numeric(10,2)"),
        ("amount", "ALTER amount TYPE integer"),
        ("share", "ALTER share TYPE real"),
        ("share", "ALTER share TYPE bigint"),
        ("word", "ALTER word TYPE varchar(4)"),
        ("word", "ALTER word TYPE char(9)"),
        ("word", "ALTER word TYPE name"),
        ("at", "ALTER at TYPE timestamptz(0)"),
        ("at", "ALTER at TYPE timestamp"),
        ("local", "ALTER local TYPE timestamptz"),
        ("local", "ALTER local TYPE date"),
        ("day", "ALTER day TYPE timestamptz"),
        ("shares", "ALTER shares TYPE numeric(5,1)[]"),
        ("instants", "ALTER instants TYPE timestamptz(0)[]"),
        ("word", "DROP word, ADD word text GENERATED ALWAYS AS ('x') STORED"),
        ("whole", "ALTER whole SET NOT NULL, ALTER whole ADD GENERATED ALWAYS AS IDENTITY"),
        ("share", "DROP share"),
        ("more", "ADD more integer NOT NULL"),
    ],
)
def test_a_column_that_changes_after_the_start_stops_the_publish(
    ledger_database: Database, column: str, action: str
) -> None:
    """The next run would call the table unfit all the same."""
    desk = Desk(*ledger_database, schema=SCHEMA)
    batch, contribution = staged(desk)
    desk.sql(f"ALTER TABLE {desk.target} {action}")
    with pytest.raises(TargetDoesNotFit) as refused:
        desk.publish(batch, contribution)
    assert [one.column for one in refused.value.differences] == [column]
    assert desk.sql(f"SELECT count(*) FROM {desk.target}") == [(0,)]


@pytest.mark.parametrize("refused_become_dead_letters", [False, True])
def test_one_that_changes_behind_the_look_stops_it_too(
    ledger_database: Database, monkeypatch: pytest.MonkeyPatch, refused_become_dead_letters: bool
) -> None:
    """The rows' own lock keeps what the last look finds."""
    desk = Desk(*ledger_database)
    desk.grow(2)
    desk.target_writer = replace(
        desk.target_writer, refused_become_dead_letters=refused_become_dead_letters
    )
    batch = desk.must_plan(desk.open().epoch)
    contribution = desk.stage(batch, desk.join(desk.epoch))
    narrow = f"ALTER TABLE {desk.target} ALTER kafka_offset TYPE real"
    late(monkeypatch, TargetWriter, "for_publish", lambda: desk.sql(narrow))
    with pytest.raises(TargetDoesNotFit):
        desk.publish(batch, contribution)
    assert desk.rows() == []


def test_of_several_targets_none_is_given_rows(ledger_database: Database) -> None:
    """One of them was narrowed: the other one's rows do not stand either."""
    counter = Counter(ledger_database)
    counter.grow(2)
    batch = counter.must_plan(counter.open().epoch)
    contribution = counter.stage_parts(batch)
    counter.sql(f"ALTER TABLE {counter.table(LINES)} ALTER id TYPE real")
    with pytest.raises(TargetDoesNotFit):
        counter.publish(batch, contribution)
    assert counter.sql(f"SELECT count(*) FROM {counter.table(ORDERS)}") == [(0,)]


def test_an_upsert_stops_with_its_keys_as_they_were(ledger_database: Database) -> None:
    """A text of three letters fits; what comes next may not."""
    shop = Shop(ledger_database, None)
    shop.publish([(1, "a"), (2, "b")])
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} ALTER word TYPE char(3)")
    with pytest.raises(TargetDoesNotFit) as refused:
        shop.publish([(1, "c "), (3, "d")])
    assert [one.column for one in refused.value.differences] == ["word"]
    assert shop.rows() == {1: "a  ", 2: "b  "}


@pytest.mark.parametrize("change", ["ADD note text", "DROP more"])
def test_what_is_left_out_does_not_depend_on_who_publishes(
    ledger_database: Database, change: str
) -> None:
    """A member that started before a column came publishes it; one that went is said."""
    desk = Desk(*ledger_database)
    desk.sql(f"ALTER TABLE {desk.target} ADD more text")
    schema = pa.schema([*desk.schema, ("note", pa.string()), ("more", pa.string())])
    columns = columns_of(schema)
    early = TargetWriter(desk.target, columns, ignores_columns=True)
    with transaction(desk.engine, "target") as cursor:
        desk.target_writer = early.without_unknown(cursor)
    desk.schema, desk.columns = schema, columns
    desk.dead_letters_of = lambda span: []
    desk.grow(1)
    batch = desk.must_plan(desk.open().epoch)
    rows = pa.RecordBatch.from_pydict(
        {"kafka_partition": [0], "kafka_offset": [0], "note": ["kept"], "more": ["x"]}, schema
    )
    contribution = desk.stage(batch, desk.join(desk.epoch), rows=[rows])
    desk.sql(f"ALTER TABLE {desk.target} {change}")
    if change.startswith("DROP"):
        with pytest.raises(TargetDoesNotFit) as refused:
            desk.publish(batch, contribution)
        assert [one.column for one in refused.value.differences] == ["more"]
    else:
        desk.publish(batch, contribution)
        assert desk.sql(f"SELECT note FROM {desk.target}") == [("kept",)]


@pytest.mark.parametrize(
    ("was", "value", "type_now"),
    [
        ("text", "longer than three", "varchar(3)"),
        ("text", "longer than three", "char(3)"),
        ("text", "blanks  ", "char(9)"),
        ("text", "n" * 64, "name"),
        ("text", "007", "integer"),
        ("text", "yes", "boolean"),
        ("text", "no number", "integer"),
        ("numeric(12,4)", "1.2399", "numeric(10,2)"),
        ("numeric(12,4)", "1.2399", "integer"),
        ("double precision", "1.23456789", "real"),
        ("timestamptz", "2026-01-01 12:00:00.65+00", "timestamptz(0)"),
        ("timestamptz", "2026-01-01 12:00:00+00", "timestamp"),
        ("timestamp", "2026-01-01 12:00:00", "date"),
        ("time", "12:00:00.65", "time(0)"),
        ("interval", "1 day 12:00:00.65", "interval day"),
        ("bit(4)", "1011", "bit(2)"),
        ("varbit", "1011", "varbit(2)"),
        ("numeric[]", "{1.2399,NULL}", "numeric(10,2)[]"),
        ("json", '{"b":  1, "a": 2}', "jsonb"),
    ],
)
def test_a_rewind_puts_back_no_other_value_than_was_kept(
    ledger_database: Database, was: str, value: str, type_now: str
) -> None:
    """All that the table holds by then fits; what it held once would be cut by the cast."""
    shop = Shop(ledger_database, None)
    desk = shop.desk
    desk.sql(f"ALTER TABLE {desk.target} ADD odd {was}")
    shop.publish([(1, "a"), (2, "b")])
    desk.sql(f"UPDATE {desk.target} SET odd = %s WHERE id = 1", (value,))
    shop.publish([(1, "c"), (2, None)])
    desk.sql(f"UPDATE {desk.target} SET odd = NULL")
    desk.sql(f"ALTER TABLE {desk.target} ALTER odd TYPE {type_now} USING odd::text::{type_now}")
    before = shop.whole()
    with pytest.raises(KeptValuesAltered) as refused:
        desk.rewind(1)
    assert refused.value.column == "odd"
    assert shop.whole() == before
    with pytest.raises(KeptValuesAltered), transaction(desk.engine, "look") as cursor:
        desk.published_rows.count_rows(cursor, 1)
    desk.sql(f"ALTER TABLE {desk.target} ALTER odd TYPE {was} USING odd::text::{was}")
    desk.rewind(1)
    assert desk.sql(f"SELECT id, odd::text FROM {desk.target} ORDER BY 1") == [
        (1, value),
        (2, None),
    ]


def test_an_order_that_was_kept_is_compared_whole(ledger_database: Database) -> None:
    """A deletion with more digits than its column has by now is still the later one."""
    schema, narrow = (
        SHOP.set(SHOP.get_field_index("place"), pa.field("place", pa.decimal128(12, digits)))
        for digits in (4, 2)
    )
    shop = Shop(ledger_database, "place", schema)
    desk = shop.desk
    desk.grow(1)
    shop.publish_rows([(1, "a", Decimal("1.2449"), True, TOPIC, 0, 0)])
    desk.sql(f"ALTER TABLE {desk.target} ALTER place TYPE numeric(12,2)")
    desk.schema, desk.columns = narrow, columns_of(narrow)
    desk.target_writer = replace(desk.target_writer, columns=desk.columns)
    desk.grow(1, 1)
    shop.publish_rows([(1, "older", Decimal("1.24"), False, TOPIC, 1, 0)])
    assert shop.rows() == {}
