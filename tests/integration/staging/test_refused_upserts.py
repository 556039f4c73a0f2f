"""Upserted rows that the target refuses: their records are dead letters, as if never sent."""

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from sqlalchemy import Engine
from tests.support.desk import TOPIC
from tests.support.shop import SCHEMA, Shop

from tidemark.model.dead_letters import Limits
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.postgres.errors import StagedRowsGone
from tidemark.staging import refused
from tidemark.staging.errors import RefusedRowsNotAllFound, RowRefused, RowUnplaced
from tidemark.staging.refused import Places

Database = tuple[Engine, dict[str, Any]]


@pytest.fixture
def shop(ledger_database: Database) -> Shop:
    """A region whose target refuses the word bad; an offset decides which row is the last."""
    shop = Shop(ledger_database, None)
    shop.let_be_refused()
    return shop


KNOWN = UUID("01234567-89ab-cdef-0123-456789abcdef")


def refused_counts(shop: Shop) -> list[tuple[int, ...]]:
    """Of each batch: rows and records that were refused, dead letters that were moved."""
    return shop.desk.sql(
        "SELECT rows_refused, records_refused, dead_letters_moved FROM tidemark.batches"
        f" WHERE {shop.desk.here} AND state = 'published' ORDER BY seq"
    )


def details(shop: Shop) -> set[str]:
    """What of the target refused records."""
    found = shop.desk.sql(f"SELECT detail FROM tidemark.dead_letters WHERE {shop.desk.here}")
    return {detail for (detail,) in found}


def test_a_key_has_its_last_row_that_is_no_dead_letter(shop: Shop) -> None:
    """B8, B15: of the same batch, of an earlier one, or none; a superseded row is not tried."""
    shop.publish([(1, "a"), (2, "b"), (3, "c")])
    shop.publish([(1, "d"), (1, "bad"), (2, "bad"), (4, "bad"), (5, "bad"), (5, "e")])
    assert shop.rows() == {1: "d", 2: "b", 3: "c", 5: "e"}
    assert shop.dead_letters() == [(0, 4, ["bad"]), (0, 5, ["bad"]), (0, 6, ["bad"])]
    assert shop.counts() == [(3, 3, 0, 0, 1), (6, 2, 0, 1, 0)]
    assert refused_counts(shop) == [(0, 0, 0), (3, 3, 3)]
    detail = shop.desk.sql(
        f"SELECT DISTINCT detail FROM tidemark.dead_letters WHERE {shop.desk.here}"
    )
    assert "constraint the_guard" in detail[0][0]
    before = shop.whole()
    shop.publish([(2, "bad"), (2, "bad"), (2, "bad")])
    assert shop.whole() == before
    shop.desk.rewind(1)
    assert (shop.rows(), shop.dead_letters()) == ({1: "a", 2: "b", 3: "c"}, [])


def test_row_after_row_of_a_key_is_refused(shop: Shop) -> None:
    """B15: until one is taken; and what is kept for a rewind is what was there before the batch."""
    shop.publish([(1, "a")])
    shop.publish([(1, "b"), (1, "bad"), (1, "bad"), (1, "bad"), (2, "bad")])
    assert shop.rows() == {1: "b"}
    assert shop.counts()[1] == (5, 1, 0, 0, 0)
    assert [offset for _, offset, _ in shop.dead_letters()] == [2, 3, 4, 5]
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a"}


def test_a_deletion_that_is_refused_leaves_the_row(shop: Shop) -> None:
    """B8, B15: another table refers to it."""
    shop.publish([(1, "a"), (2, "b")])
    name = f"public.refers_{shop.desk.region}"
    shop.desk.sql(f"CREATE TABLE {name} AS SELECT 1::bigint AS id")
    shop.desk.sql(f"ALTER TABLE {name} ADD FOREIGN KEY (id) REFERENCES {shop.desk.target}")
    shop.publish([(1, None), (2, None)])
    assert shop.rows() == {1: "a"}
    assert shop.dead_letters() == [(0, 2, [None])]
    assert shop.counts()[1] == (2, 0, 1, 0, 0)
    assert shop.whole()[1][0][2] == ["2"], "the ledger does not know the other one as deleted"


def test_a_record_is_rows_or_a_dead_letter(shop: Shop) -> None:
    """B15: of one record two keys have a row; as one is refused, neither has it."""
    shop.publish([(1, "a"), (2, "b")])
    shop.desk.grow(2)
    shop.publish_rows(
        [(key, word, 0, False, TOPIC, 0, offset)
         for key, word, offset in ((1, "c", 2), (2, "bad", 2), (3, "d", 3))]
    )  # fmt: skip
    assert shop.rows() == {1: "a", 2: "b", 3: "d"}
    assert shop.dead_letters() == [(0, 2, ["c", "bad"])]
    assert refused_counts(shop)[1] == (2, 1, 1)


@pytest.mark.parametrize(("row", "what"), [((None, "a", 1), "id"), ((1, "a", None), "place")])
def test_a_row_that_has_no_place_is_refused(
    ledger_database: Database, row: tuple[Any, ...], what: str
) -> None:
    """B15: no key, or no order; its column is named."""
    shop = Shop(ledger_database, "place")
    shop.let_be_refused()
    shop.desk.grow(3)
    rows = [(2, "b", 1), row, (2, "c", 2)]
    shop.publish_rows([(*one, False, TOPIC, 0, n) for n, one in enumerate(rows)])
    assert shop.rows() == {2: "c"}
    [(detail,)] = shop.desk.sql(f"SELECT detail FROM tidemark.dead_letters WHERE {shop.desk.here}")
    assert detail.startswith(
        f"column {what}, table public.{shop.desk.target.table} (SQLSTATE 23502"
    )


def test_a_text_that_is_no_key_is_refused(ledger_database: Database) -> None:
    """B15: the target's type parses it; the others are one key in two spellings."""
    shop = Shop(ledger_database, None, SCHEMA.set(0, pa.field("id", pa.string())))
    shop.let_be_refused()
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} ALTER id TYPE uuid USING id::uuid")
    shop.desk.grow(3)
    texts = (str(KNOWN), "none", str(KNOWN).upper())
    shop.publish_rows([(text, "abc"[n], 0, False, TOPIC, 0, n) for n, text in enumerate(texts)])
    assert [*shop.rows().values()] == ["c"]
    assert shop.dead_letters() == [(0, 1, ["b"])]


def test_rows_that_swap_a_unique_value_go_in_one_by_one(shop: Shop) -> None:
    """B15: together they are refused, and nothing of them is a dead letter."""
    shop.publish([(1, "a"), (2, "b")])
    shop.desk.sql(f"CREATE UNIQUE INDEX ON {shop.desk.target} (word)")
    shop.publish([(1, "b"), (2, "c"), (3, "a")])
    assert shop.rows() == {1: "b", 2: "c", 3: "a"}
    assert shop.dead_letters() == []


def test_refused_records_are_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: over all rounds of the search, in number and in time; then nothing is published."""
    tried: list[Any] = []
    at = Places.at

    def counted(self: Places, name: str, some: Any) -> Any:
        tried.append(some)
        return at(self, name, some)

    monkeypatch.setattr(Places, "at", counted)
    shop.limits = Limits(1, max_count=2)
    with pytest.raises(DeadLettersOverLimit) as caught:
        shop.publish([(1, "bad")] * 9)
    assert caught.value.records == 8
    assert caught.value.refused == 3
    assert len(tried) == 5, "three rounds, and those that go on try again"
    shop.desk.grow(-9)
    shop.limits = Limits(1)
    monkeypatch.setattr(refused, "SEARCH_SECONDS", -1.0)
    with pytest.raises(RefusedRowsNotAllFound):
        shop.publish([(1, "bad")] * 9)
    assert (shop.rows(), shop.dead_letters()) == ({}, [])


def test_unless_told_a_refused_row_stops_the_run(ledger_database: Database) -> None:
    """B8: also one without a key."""
    shop = Shop(ledger_database, None)
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} ADD CHECK (word <> 'bad')")
    for change, case in (((1, "bad"), RowRefused), ((None, "a"), RowUnplaced)):
        with pytest.raises(case):
            shop.publish([change])
        shop.desk.grow(-1)
    assert shop.rows() == {}


def test_staged_rows_that_are_gone_are_no_refused_ones(shop: Shop) -> None:
    """B15, H1: the constraint on a target's counts compares them."""
    desk = shop.desk
    desk.grow(3)
    epoch = desk.open(limits=shop.limits).epoch
    batch = desk.must_plan(epoch)
    rows = [(key, word, 0, False, TOPIC, 0, key) for key, word in enumerate(["a", "bad", "b"])]
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, desk.schema, strict=True)]
    staged = pa.RecordBatch.from_arrays(arrays, schema=desk.schema)
    contribution = desk.stage(batch, desk.join(epoch), rows=[staged])
    desk.sql(f"DELETE FROM {batch.staging.schema}.{batch.staging.rows} WHERE id = 2")
    with pytest.raises(StagedRowsGone) as caught:
        desk.publish(batch, contribution)
    assert caught.value.constraint == "moved_rows_equal_contributed"
    assert (shop.rows(), shop.dead_letters()) == ({}, [])


def test_a_row_is_not_refused_for_what_a_refused_one_left(shop: Shop) -> None:
    """B8, B15: without the bad record the other key's value would have been free."""
    shop.publish([(1, "a")])
    shop.desk.sql(f"CREATE UNIQUE INDEX ON {shop.desk.target} (word)")
    shop.publish([(1, "b"), (2, "a"), (1, "bad")])
    assert shop.rows() == {1: "b", 2: "a"}
    assert shop.dead_letters() == [(0, 3, ["bad"])]


def test_a_dead_letter_that_is_not_written_stops_the_publish(shop: Shop) -> None:
    """B15, H1: those that are written are compared with those that were refused."""
    desk = shop.desk
    desk.sql(
        "CREATE OR REPLACE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER swallow BEFORE INSERT ON tidemark.dead_letters FOR EACH ROW"
        f" WHEN (NEW.region = '{desk.region}') EXECUTE FUNCTION public.swallow()"
    )
    try:
        with pytest.raises(StagedRowsGone) as caught:
            shop.publish([(1, "a"), (2, "bad")])
        assert caught.value.constraint == "moved_dead_letters_equal_contributed"
    finally:
        desk.sql("DROP TRIGGER swallow ON tidemark.dead_letters")
    assert (shop.rows(), shop.dead_letters()) == ({}, [])
