"""Wherever a log is cut into batches, the table is what its records one by one make of it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from tests.support.shop import Change, Shop

Database = tuple[Engine, dict[str, Any]]
Rows = dict[int, tuple[str, int]]
"""The word and the boss of each key."""

Record = tuple[int, str | None, int]

KEYS, WORDS = st.integers(1, 4), st.sampled_from("abcd")
RECORDS = st.tuples(KEYS, st.none() | WORDS, KEYS)
LOGS = st.lists(RECORDS, min_size=8, max_size=40)
FIRST: list[Record] = [(1, "a", 1), (2, "b", 1), (3, "c", 2)]
MOST = 7


def after(rows: Rows, key: int, word: str | None, boss: int) -> Rows:
    """What one record makes of the table."""
    others = {one: row for one, row in rows.items() if one != key}
    return others if word is None else others | {key: (word, boss)}


def is_taken(rows: Rows) -> bool:
    """Whether the table's constraints allow it."""
    words = {word for word, _ in rows.values()}
    return len(words) == len(rows) and all(boss in rows for _, boss in rows.values())


def taken(log: list[Record]) -> list[Record]:
    """The records of a log that a table takes one by one, up to a few."""
    rows: Rows = {}
    for first in FIRST:
        rows = after(rows, *first)
    found = list[Record]()
    for record in log:
        then = after(rows, *record)
        if is_taken(then) and len(found) < MOST:
            rows = then
            found.append(record)
    return found


def filled(database: Database, on_refused: str) -> Shop:
    """A table of which words are unique, and each row refers to another one."""
    shop = Shop(database, None)
    shop.desk.dead_letters_of = lambda span: []
    if on_refused == "dead_letter":
        shop.let_be_refused()
    publish(shop, FIRST)
    table = shop.desk.target
    key = f"FOREIGN KEY (place) REFERENCES {table} (id)"
    shop.desk.sql(f"ALTER TABLE {table} ADD UNIQUE (word), ADD {key}")
    return shop


def publish(shop: Shop, records: list[Record]) -> None:
    """One batch."""
    changes: list[Change] = [(key, word) for key, word, _ in records]
    shop.publish(changes, places=[boss for _, _, boss in records])


def table(shop: Shop) -> list[tuple[Any, ...]]:
    """All but the batches' numbers."""
    columns = "id, word, place, kafka_partition, kafka_offset"
    return shop.desk.sql(f"SELECT {columns} FROM {shop.desk.target} ORDER BY id")


def gone(shop: Shop) -> list[tuple[Any, ...]]:
    """The keys that the ledger knows as deleted."""
    return shop.desk.sql(f"SELECT key FROM tidemark.deleted_keys WHERE {shop.desk.here} ORDER BY 1")


@pytest.mark.parametrize(
    "on_refused", [pytest.param("stop", marks=pytest.mark.long), "dead_letter"]
)
@given(log=LOGS, cut=st.integers(0, MOST))
@settings(max_examples=settings().max_examples // 10)
def test_batches_end_as_their_records_one_by_one(
    ledger_database: Database, on_refused: str, log: list[Record], cut: int
) -> None:
    """B4, B8, B15: rows, counts and deleted keys; and so does each rewind."""
    records = taken(log)
    one_by_one, batched = (filled(ledger_database, on_refused) for _ in range(2))
    states = {0: (table(one_by_one), gone(one_by_one))}
    for number, record in enumerate(records, 1):
        publish(one_by_one, [record])
        states[number] = table(one_by_one), gone(one_by_one)
    ends = sorted({min(cut, len(records)), len(records)} - {0})
    for start, end in zip([0, *ends], ends, strict=False):
        publish(batched, records[start:end])
        assert (table(batched), gone(batched)) == states[end]
    assert batched.dead_letters() == one_by_one.dead_letters() == []
    for contributed, moved, deleted, superseded, _ in batched.counts():
        assert moved + deleted + superseded == contributed
    for seq, end in reversed([*enumerate([0, *ends], 1)]):
        batched.desk.rewind(seq)
        assert (table(batched), gone(batched)) == states[end]
    for seq in range(len(records), 0, -1):
        one_by_one.desk.rewind(seq)
        assert (table(one_by_one), gone(one_by_one)) == states[seq - 1]
