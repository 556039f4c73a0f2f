"""A batch of upserts ends as its records one by one, also where they stand in each other's way."""

from typing import Any

import pytest
from sqlalchemy import Engine
from tests.support.shop import Change, Shop

from tidemark.postgres.transaction import transaction
from tidemark.staging import _upsert
from tidemark.staging.errors import (
    ForeignKeyActs,
    KeysInTheWay,
    KeysNotPutBack,
    KeysRenumbered,
    RowRefused,
    TargetKeptRowsOut,
)

Database = tuple[Engine, dict[str, Any]]


def unique_words(shop: Shop) -> None:
    """No two rows have the same word."""
    name = one_word(shop)
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} ADD CONSTRAINT {name} UNIQUE (word)")


def one_word(shop: Shop) -> str:
    """The name of that constraint."""
    return f"one_word_{shop.desk.region}"


def bosses(shop: Shop, how: str = "") -> None:
    """The place of a row is the key of another one, or of itself."""
    table = shop.desk.target
    key = f"ADD CONSTRAINT the_boss FOREIGN KEY (place) REFERENCES {table} (id) {how}"
    shop.desk.sql(f"ALTER TABLE {table} {key}")


def swallowing(shop: Shop, when: str) -> None:
    """A trigger keeps rows out."""
    shop.desk.sql(
        "CREATE OR REPLACE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NULL; END';"
        f"CREATE TRIGGER swallow BEFORE INSERT ON {shop.desk.target} FOR EACH ROW"
        f" WHEN ({when}) EXECUTE FUNCTION public.swallow()"
    )


def shop_of(database: Database, on_refused: str, order_by: str | None = None) -> Shop:
    shop = Shop(database, order_by)
    shop.desk.dead_letters_of = lambda span: []  # all records of the log are rows
    if on_refused == "dead_letter":
        shop.let_be_refused()
    return shop


@pytest.fixture(params=["stop", "dead_letter"])
def shop(request: pytest.FixtureRequest, ledger_database: Database) -> Shop:
    """With each setting of on_refused."""
    return shop_of(ledger_database, request.param)


MOVED: list[list[Change]] = [
    [(9, "y"), (5, "x")],
    [(9, None), (5, "x")],
    [(9, "y"), (5, "x"), (9, "z"), (5, "y"), (9, "x")],
    [(1, "tmp"), (2, "a"), (1, "b")],
    [(1, "tmp"), (2, "a"), (1, "b"), (9, None), (1, "x"), (2, None), (4, "a"), (9, "b")],
    [(3, "x"), (3, "c"), (1, "tmp"), (2, "a"), (1, "b")],
]
"""In the last one a row is refused alone, and superseded."""


@pytest.mark.parametrize("changes", MOVED)
def test_values_move_from_key_to_key_as_in_the_log(shop: Shop, changes: list[Change]) -> None:
    """B8, B15: also round in a circle; rows, counts and deleted keys; then all the way back."""
    shop.publish([(1, "a"), (2, "b"), (9, "x")])
    unique_words(shop)
    before = shop.whole()
    shop.publish(changes)
    last = dict(changes)
    assert shop.rows() == {k: w for k, w in ({1: "a", 2: "b", 9: "x"} | last).items() if w}
    assert shop.dead_letters() == []
    gone = sum(word is None for word in last.values())
    counts = len(changes), len(last) - gone, gone, len(changes) - len(last)
    assert shop.counts()[1][:4] == counts
    shop.publish([(7, "seven")])
    shop.desk.rewind(1)
    assert shop.whole() == before


def test_a_value_moves_to_a_key_of_an_earlier_partition(shop: Shop) -> None:
    """B8: between partitions there is no order, and one that is taken will do."""
    shop.publish([(1, "a")], [(2, "b"), (3, "c")])
    unique_words(shop)
    before = shop.whole()
    shop.publish([(1, "b")], [(2, "c"), (3, "d")])
    assert (shop.rows(), shop.dead_letters()) == ({1: "b", 2: "c", 3: "d"}, [])
    shop.desk.rewind(1)
    assert shop.whole() == before


def test_an_older_row_that_comes_late_takes_nothing(ledger_database: Database) -> None:
    """B8: by an order: older than a stored row, a deleted key, another one of the batch."""
    shop = shop_of(ledger_database, "stop", "place")
    shop.publish([(1, "a"), (2, "b"), (3, None)], places=[10, 10, 10])
    unique_words(shop)
    before = shop.whole()
    changes: list[Change] = [
        (1, "tmp"), (2, "a"), (1, "b"), (2, "old"), (1, "older"), (3, "late"), (2, "ancient")
    ]  # fmt: skip
    shop.publish(changes, places=[11, 12, 13, 11, 9, 9, 1])
    assert shop.rows() == {1: "b", 2: "a"}
    assert shop.counts()[1][:4] == (7, 2, 0, 5)
    shop.desk.rewind(1)
    assert shop.whole() == before


def test_what_no_order_heals_stops_the_run(ledger_database: Database) -> None:
    """B8, B16: nothing of the batch stands, and the constraint is named."""
    shop = shop_of(ledger_database, "stop")
    shop.publish([(1, "a"), (2, "b")])
    unique_words(shop)
    before = shop.whole()
    refused: list[list[Change]] = [
        [(3, "c"), (4, "b")], [(1, "b"), (2, "a")], [(5, "e"), (6, "e")]
    ]  # fmt: skip
    for changes in refused:
        with pytest.raises(RowRefused) as caught:
            shop.publish(changes)
        assert caught.value.names["constraint"] == one_word(shop)
        assert shop.whole() == before
        shop.desk.grow(-2)


def test_a_record_that_is_refused_alone_is_the_only_dead_letter(ledger_database: Database) -> None:
    """B15: the others go round in their circle."""
    shop = shop_of(ledger_database, "dead_letter")
    shop.publish([(1, "a"), (2, "b"), (9, "x")])
    unique_words(shop)
    shop.publish([(1, "tmp"), (2, "a"), (4, "bad"), (1, "b")])
    assert shop.rows() == {1: "b", 2: "a", 9: "x"}
    assert shop.dead_letters() == [(0, 5, ["bad"])]


def test_the_tries_are_bounded(ledger_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """B8: what is refused again and again holds the region's lock."""
    monkeypatch.setattr(_upsert, "TRIES", 1)
    shop = shop_of(ledger_database, "stop")
    shop.publish([(1, "a"), (2, "b"), (9, "x")])
    unique_words(shop)
    with pytest.raises(RowRefused):
        shop.publish([(1, "tmp"), (2, "a"), (1, "b"), (9, "y"), (5, "x"), (9, "a"), (2, "y")])
    assert shop.rows() == {1: "a", 2: "b", 9: "x"}


def test_a_trigger_that_keeps_a_row_stops_a_publish_in_order(ledger_database: Database) -> None:
    """B16: rows are counted slice by slice."""
    shop = shop_of(ledger_database, "stop")
    shop.publish([(9, "x")])
    unique_words(shop)
    swallowing(shop, "NEW.id = 5")
    with pytest.raises(TargetKeptRowsOut) as caught:
        shop.publish([(9, "y"), (4, "x"), (5, "z")])
    assert caught.value.by == ("trigger swallow",)
    assert shop.rows() == {9: "x"}


@pytest.mark.parametrize(
    "how", ["", "ON DELETE RESTRICT", pytest.param("DEFERRABLE", marks=pytest.mark.long)]
)
def test_rows_refer_to_rows_of_their_own_table(shop: Shop, how: str) -> None:
    """B8, B15: who is referred to comes first and goes last; so it is on the way back."""
    bosses(shop, how)
    shop.publish([(1, "boss"), (2, "worker")], places=[1, 1])
    before = shop.whole()
    shop.publish([(3, "new boss"), (2, "worker"), (1, None)], places=[3, 3, 3])
    assert shop.rows() == {2: "worker", 3: "new boss"}
    assert (shop.counts()[1][:4], shop.dead_letters()) == ((3, 2, 1, 0), [])
    after = shop.whole()
    shop.publish([(4, "four"), (3, "three"), (2, None)], places=[4, 4, 4])
    shop.desk.rewind(2)
    assert shop.whole() == after
    shop.desk.rewind(1)
    assert shop.whole() == before


def test_a_row_that_is_referred_to_is_not_deleted(ledger_database: Database) -> None:
    """B16: as in the log; the key is named."""
    shop = shop_of(ledger_database, "stop")
    bosses(shop)
    shop.publish([(1, "boss"), (2, "worker")], places=[1, 1])
    with pytest.raises(RowRefused) as caught:
        shop.publish([(1, None)], places=[1])
    assert caught.value.names["constraint"] == "the_boss"
    assert shop.rows() == {1: "boss", 2: "worker"}


@pytest.mark.parametrize("how", ["ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_table_that_changes_itself_is_refused(ledger_database: Database, how: str) -> None:
    """B16: nobody would count the rows."""
    shop = shop_of(ledger_database, "stop")
    bosses(shop, how)
    with pytest.raises(ForeignKeyActs), transaction(shop.desk.engine, "target") as cursor:
        shop.desk.target_writers.ensure_targets(cursor)


@pytest.mark.parametrize("how", ["ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_table_that_came_to_change_itself_is_seen_by_the_publish(shop: Shop, how: str) -> None:
    """B16: the key was made in the middle of the run."""
    shop.publish([(1, "boss"), (2, "worker")], places=[1, 1])
    bosses(shop, how)
    before = shop.whole()
    with pytest.raises(ForeignKeyActs):
        shop.publish([(1, None)])
    assert shop.whole() == before


def circle(shop: Shop) -> None:
    """Two keys have swapped their words, in one batch."""
    shop.publish([(1, "a"), (2, "b")])
    unique_words(shop)
    shop.publish([(1, "tmp"), (2, "a"), (1, "b")])


def owned(shop: Shop, how: str) -> str:
    """Rows of another table refer to both; a query for them."""
    table, name = shop.desk.target, f"public.of_{shop.desk.region}"
    shop.desk.sql(f"CREATE TABLE {name} (id bigint CONSTRAINT owner REFERENCES {table} {how})")
    shop.desk.sql(f"INSERT INTO {name} VALUES (1), (2)")
    return f"SELECT id FROM {name} ORDER BY 1"


def test_a_rewind_of_a_circle_keeps_what_the_rows_lack(ledger_database: Database) -> None:
    """B4: they are made anew, with the columns that came since, and with what refers to them."""
    shop = shop_of(ledger_database, "stop")
    desk = shop.desk
    circle(shop)
    others = owned(shop, "")
    desk.sql(f"ALTER TABLE {desk.target} ADD note text DEFAULT 'none'")
    desk.sql(f"UPDATE {desk.target} SET note = 'of ' || id")
    shop.publish([(3, "c"), (1, "d")])
    desk.rewind(1)
    rows = f"SELECT id, word, note, batch_seq FROM {desk.target} ORDER BY 1"
    assert desk.sql(rows) == [(1, "a", "of 1", 1), (2, "b", "of 2", 1)]
    assert desk.sql(others) == [(1,), (2,)]


@pytest.mark.parametrize("how", ["ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_rewind_deletes_no_rows_of_others(ledger_database: Database, how: str) -> None:
    """B4, B16: it is refused with the keys; once the constraint can wait, it goes back."""
    shop = shop_of(ledger_database, "stop")
    desk = shop.desk
    circle(shop)
    others = owned(shop, how)
    before = shop.whole()
    with pytest.raises(KeysInTheWay) as caught:
        desk.rewind(1)
    assert caught.value.acting == ((f'"public"."of_{desk.region}"', "owner"),)
    assert shop.whole() == before
    wait = f"DROP CONSTRAINT {one_word(shop)}, ADD UNIQUE (word) DEFERRABLE"
    desk.sql(f"ALTER TABLE {desk.target} {wait}")
    desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}
    assert desk.sql(others) == [(1,), (2,)]


def test_a_rewind_gives_no_number_back_at_the_cost_of_others(ledger_database: Database) -> None:
    """B4, B16: no UPDATE sets it, and to delete the row would take those that refer to it."""
    shop = shop_of(ledger_database, "stop")
    desk = shop.desk
    desk.sql(f"ALTER TABLE {desk.target} ADD number bigint GENERATED ALWAYS AS IDENTITY")
    shop.publish([(1, "a"), (2, "b")])
    before = shop.whole()
    shop.publish([(1, None)])
    shop.publish([(1, "again")])
    others = owned(shop, "ON DELETE CASCADE")
    with pytest.raises(KeysRenumbered) as caught:
        desk.rewind(1)
    assert caught.value.keys == 1
    assert caught.value.acting == ((f'"public"."of_{desk.region}"', "owner"),)
    assert desk.sql(others) == [(1,), (2,)]
    desk.sql(f"ALTER TABLE {desk.target} ALTER number SET GENERATED BY DEFAULT")
    desk.rewind(1)
    assert (shop.whole(), desk.sql(others)) == (before, [(1,), (2,)])


def test_a_trigger_that_keeps_a_row_stops_a_rewind_of_a_circle(ledger_database: Database) -> None:
    """B16: rows that come back are counted there too."""
    shop = shop_of(ledger_database, "stop")
    circle(shop)
    before = shop.whole()
    swallowing(shop, "NEW.word = 'a'")
    with pytest.raises(KeysNotPutBack) as caught:
        shop.desk.rewind(1)
    assert (caught.value.missing, caught.value.by) == (1, ("trigger swallow",))
    assert shop.whole() == before
