"""A record that one of several targets refuses is a dead letter, and has rows in none of them."""

from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.counter import LINES, ORDERS, Counter, rows_at

from tidemark.model.dead_letters import Limits
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.model.upsert import Upsert
from tidemark.staging.errors import RefusedRowsOfNoRecord

Database = tuple[Engine, dict[str, Any]]


@pytest.fixture
def counter(ledger_database: Database) -> Counter:
    """Two targets, ten offsets in each of two partitions; refused rows become dead letters."""
    counter = Counter(ledger_database)
    counter.refused_become_dead_letters = True
    counter.grow(10, 0)
    counter.grow(10, 1)
    return counter


def guard(counter: Counter, name: str, check: str) -> None:
    counter.sql(f"ALTER TABLE {counter.table(name)} ADD CONSTRAINT odd_{name} CHECK ({check})")


def refused(counter: Counter) -> list[tuple[Any, ...]]:
    return counter.sql(
        'SELECT partition, "offset", detail, refused_rows FROM tidemark.dead_letters'
        f" WHERE {counter.here} AND refused_rows IS NOT NULL ORDER BY 1, 2"
    )


def counted(counter: Counter) -> list[tuple[Any, ...]]:
    """Of each target of the batch: contributed, moved, refused; at last its refused records."""
    return counter.sql(
        "SELECT t.target, t.rows_contributed, t.rows_moved, t.rows_refused, records_refused"
        " FROM tidemark.batches JOIN tidemark.batch_targets t USING (region, seq)"
        f" WHERE {counter.here} AND state = 'published' ORDER BY 1"
    )


def test_a_record_has_rows_in_all_targets_or_in_none(counter: Counter) -> None:
    """B8, B15: whichever refuses; its rows of all are kept, and each target counts its own."""
    guard(counter, LINES, "id <> 11")
    guard(counter, ORDERS, "id <> 1000")
    outcome = counter.work_on()
    orders, lines = counter.visible(ORDERS), counter.visible(LINES)
    assert not {(1,), (1000,)} & {*orders}
    assert [of for _, of in lines] == [id_ for (id_,) in orders for _ in (1, 2)]
    first, second = refused(counter)
    assert ("odd_lines" in first[2], "odd_orders" in second[2]) == (True, True)
    assert (first[:2], [row["id"] for row in first[3][LINES]]) == ((0, 1), [11, 12])
    assert [row["id"] for row in second[3][ORDERS]] == [1000]
    all_of_them = len(orders) + 2
    assert counted(counter) == [
        (LINES, 2 * all_of_them, 2 * all_of_them - 4, 4, 2),
        (ORDERS, all_of_them, all_of_them - 2, 2, 2),
    ]
    assert (outcome.rows, outcome.refused) == (3 * (all_of_them - 2), 2)
    counter.rewind(0)
    assert (counter.visible(LINES), counter.visible(ORDERS), counter.dead_letters()) == ([], [], [])


@pytest.mark.parametrize("how", ["", "DEFERRABLE INITIALLY DEFERRED"])
def test_rows_that_refer_to_a_refused_one_go_too(counter: Counter, how: str) -> None:
    """B8, B15: lines of other records too, and no others, if the keys wait or not."""
    counter.refer(how)
    guard(counter, ORDERS, "id <> 7")
    orders = rows_at(ORDERS, [(7, False, 0, 0), (8, False, 0, 1)])
    lines = rows_at(LINES, [(1, 7, False, 0, 0), (2, 8, False, 0, 2), (3, 7, False, 1, 0)])
    counter.work_on([{ORDERS: orders, LINES: lines}])
    assert (counter.visible(ORDERS), counter.visible(LINES)) == ([(8,)], [(2, 8)])
    assert [one[:2] for one in refused(counter)] == [(0, 0), (1, 0)]
    assert "lines_of_orders" in refused(counter)[1][2]


def test_rows_of_a_record_that_refer_to_each_other_go_in_together(counter: Counter) -> None:
    """B8, B15: a circle of keys that wait costs no record that is taken."""
    counter.refer("DEFERRABLE INITIALLY IMMEDIATE")
    counter.sql(f"ALTER TABLE {counter.table(ORDERS)} ADD first_line bigint"
                " GENERATED ALWAYS AS (id * 10 + 1) STORED")  # fmt: skip
    counter.sql(f"CREATE UNIQUE INDEX ON {counter.table(LINES)} (id)")
    counter.sql(f"ALTER TABLE {counter.table(ORDERS)} ADD CONSTRAINT orders_of_lines FOREIGN KEY"
                f" (first_line) REFERENCES {counter.table(LINES)} (id) DEFERRABLE")  # fmt: skip
    guard(counter, LINES, "id <> 12")
    assert counter.work_on().refused == 1
    assert [one[:2] for one in refused(counter)] == [(0, 1)]


def test_an_upsert_beside_falls_back(ledger_database: Database) -> None:
    """B8, B15: the order that a refused line came with is not the last one of its key."""
    counter = Counter(ledger_database, {ORDERS: Upsert(("id",))})
    counter.refused_become_dead_letters = True
    counter.grow(10)
    guard(counter, LINES, "id <> 13")
    orders = rows_at(ORDERS, [(1, False, 0, offset) for offset in range(3)])
    lines = rows_at(LINES, [(11 + offset, 1, False, 0, offset) for offset in range(3)])
    counter.work_on([{ORDERS: orders, LINES: lines}])
    assert counter.sql(f"SELECT id, kafka_offset FROM {counter.table(ORDERS)}") == [(1, 1)]
    assert counter.visible(LINES) == [(11, 1), (12, 1)]
    assert counted(counter) == [(LINES, 3, 2, 1, 1), (ORDERS, 3, 1, 1, 1)]
    assert counter.counts(ORDERS) == [(3, 1, 0, 1, 0)]


def test_a_line_stays_with_the_order_that_its_key_falls_back_to(ledger_database: Database) -> None:
    """B8, B15: refused beside the newest order, it is tried again with the one before."""
    counter = Counter(ledger_database, {ORDERS: Upsert(("id",))})
    counter.refused_become_dead_letters = True
    counter.grow(10)
    counter.refer()
    guard(counter, ORDERS, "kafka_offset <> 2")
    orders = rows_at(ORDERS, [(1, False, 0, 0), (1, False, 0, 2)])
    lines = rows_at(LINES, [(11, 1, False, 0, 1), (12, 2, False, 0, 5)])
    counter.work_on([{ORDERS: orders, LINES: lines}])
    assert counter.sql(f"SELECT id, kafka_offset FROM {counter.table(ORDERS)}") == [(1, 0)]
    assert counter.visible(LINES) == [(11, 1)]
    assert [one[:2] for one in refused(counter)] == [(0, 2), (0, 5)]


def test_refused_records_are_bounded_over_all_targets(counter: Counter) -> None:
    """B15: and nothing is in any of them."""
    guard(counter, LINES, "id <> 11")
    guard(counter, ORDERS, "id <> 1000")
    batch = counter.must_plan(counter.open(limits=Limits(1, max_count=3)).epoch)
    with pytest.raises(DeadLettersOverLimit) as caught:
        counter.publish(batch, counter.stage_parts(batch))
    assert caught.value.records == 16
    assert (counter.visible(LINES), counter.visible(ORDERS), counter.dead_letters()) == ([], [], [])


def test_a_refused_row_that_names_no_record_stops_the_run(ledger_database: Database) -> None:
    """B16: at once, beside an upsert too, whose search begins anew without refused records."""
    counter = Counter(ledger_database, {ORDERS: Upsert(("id",))})
    counter.refused_become_dead_letters = True
    counter.grow(10)
    guard(counter, LINES, "id <> 11")
    parts = {LINES: rows_at(LINES, [(11, 1, False, None, None)]), ORDERS: rows_at(ORDERS, [])}
    with pytest.raises(RefusedRowsOfNoRecord):
        counter.work_on([parts])
    assert (counter.visible(LINES), counter.dead_letters()) == ([], [])


def test_two_upserted_targets_publish(ledger_database: Database) -> None:
    """B8, B15: each has its own table of last rows, and refused rows of each become letters."""
    counter = Counter(ledger_database, {ORDERS: Upsert(("id",)), LINES: Upsert(("id",))})
    counter.refused_become_dead_letters = True
    counter.grow(10)
    guard(counter, LINES, "id <> 12")
    orders = rows_at(ORDERS, [(1, False, 0, 0)])
    lines = rows_at(LINES, [(11, 1, False, 0, 1), (12, 1, False, 0, 2)])
    counter.work_on([{ORDERS: orders, LINES: lines}])
    assert counter.sql(f"SELECT id, kafka_offset FROM {counter.table(ORDERS)}") == [(1, 0)]
    assert counter.visible(LINES) == [(11, 1)]
    assert [one[:2] for one in refused(counter)] == [(0, 2)]
