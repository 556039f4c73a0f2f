"""Upserts: of each key the target holds its last row, or none; what they changed is taken back."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import psycopg2.errorcodes
import psycopg2.errors
import pyarrow as pa
import pytest
from psycopg2 import sql
from sqlalchemy import Engine
from tests.support.desk import TOPIC, Desk
from tests.support.shop import SCHEMA, Shop
from tests.support.waiting import until

from tidemark.model.offsets import TopicPartition
from tidemark.model.upsert import Upsert
from tidemark.postgres.errors import LedgerTablesDiffer, PostgresUnreachable
from tidemark.postgres.session import open_session
from tidemark.postgres.transaction import connect, transaction
from tidemark.protocol.errors import ChangedSinceCheckpoint, RemovalDiffers
from tidemark.runs import retire
from tidemark.runs.retire import prune
from tidemark.staging import _upsert, upsert_sql
from tidemark.staging._upsert import Upserting
from tidemark.staging.errors import (
    CollationNondeterministic,
    ColumnTypeUnfit,
    DeletedIsNoBoolean,
    KeptRowsHaveOtherColumns,
    KeptRowsPruned,
    KeysAltered,
    KeysChangedByOthers,
    KeysNotPutBack,
    LastRowUnknown,
    MarkedRowsKept,
    OthersWrite,
    PublishedOtherwiseBefore,
    RowsLackCoordinates,
    RowUnplaced,
    TargetKeptRowsOut,
    TargetRightMissing,
    UniqueIndexMissing,
    UpsertColumnsMissing,
    UpsertColumnsReserved,
)


@pytest.fixture
def shop(ledger_database: tuple[Engine, dict[str, Any]]) -> Shop:
    """Without an order: a record's offset decides."""
    return Shop(ledger_database, None)


@pytest.fixture
def ordered(ledger_database: tuple[Engine, dict[str, Any]]) -> Shop:
    """With an order of the rows' own."""
    return Shop(ledger_database, "place")


def test_a_key_has_its_last_row_or_none(shop: Shop) -> None:
    """B8: inserted, updated and deleted, within a batch and over batches; each row is counted."""
    shop.publish([(1, "a"), (2, "b"), (1, "c"), (3, "d"), (3, None)], [(7, "x")])
    assert shop.rows() == {1: "c", 2: "b", 7: "x"}
    shop.publish([(2, None), (3, "e"), (1, "f")], [(8, None)])
    assert shop.rows() == {1: "f", 3: "e", 7: "x"}
    assert shop.counts() == [(6, 3, 1, 2, 2), (4, 2, 2, 0, 0)]


def test_a_rewind_puts_each_key_back(shop: Shop) -> None:
    """B4, B8: rows, deleted keys and counts are those of the checkpoint; then it goes on."""
    seen = [shop.whole()]
    for changes in (
        [(1, "a"), (2, "b"), (3, "c")],
        [(1, "d"), (2, None), (4, "e")],
        [(2, "f"), (4, None), (1, None), (9, None)],
        [(1, "g"), (9, "h"), (4, None), (2, None)],
    ):
        shop.publish(changes)
        seen.append(shop.whole())
    counts = shop.counts()
    for seq in (3, 1):
        shop.desk.rewind(seq)
        assert shop.whole() == seen[seq]
        assert [one[:4] for one in shop.counts()] == [one[:4] for one in counts[:seq]]
    assert shop.counts() == [(3, 3, 0, 0, 0)]
    shop.desk.rewind(0)
    assert shop.whole() == seen[0]
    assert shop.desk.sql(f"SELECT 1 FROM tidemark.undo WHERE {shop.desk.here}") == []


def test_of_two_partitions_none_is_the_last(shop: Shop) -> None:
    """B8: within a batch, beside what is stored, and beside what was deleted."""
    with pytest.raises(LastRowUnknown):
        shop.publish([(1, "a"), (2, "b")], [(2, "c")])
    assert shop.rows() == {}


@pytest.mark.parametrize("word", ["a", None])
def test_a_key_does_not_move_to_another_partition(shop: Shop, word: str | None) -> None:
    """B8: also not where it was deleted; the batches' cuts must not decide."""
    shop.publish([(1, "a"), (1, word)])
    stored = shop.whole()
    with pytest.raises(LastRowUnknown):
        shop.publish([], [(1, "b")])
    assert shop.whole() == stored


def test_the_order_decides_over_partitions_and_batches(ordered: Shop) -> None:
    """B8: an older row that comes later changes nothing, nor does it bring a deleted key back."""
    ordered.publish([(1, "new"), (2, "x"), (3, None)], [(1, "old"), (4, "y")],
                    places=[20, 20, 20, 10, 20])  # fmt: skip
    assert ordered.rows() == {1: "new", 2: "x", 4: "y"}
    ordered.publish([], [(1, "older"), (2, "newer"), (3, "ghost"), (4, None)],
                    places=[19, 21, 19, 21])  # fmt: skip
    assert ordered.rows() == {1: "new", 2: "newer"}
    assert ordered.counts() == [(5, 3, 1, 1, 2), (4, 1, 1, 2, 0)]
    before = ordered.whole()
    ordered.publish([(3, "back"), (4, "back")], places=[22, 22])
    assert ordered.rows() == {1: "new", 2: "newer", 3: "back", 4: "back"}
    ordered.desk.rewind(2)
    assert ordered.whole() == before


ELSEWHERE = """
CREATE FUNCTION public.elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('TimeZone', 'Asia/Tokyo', false); RETURN coalesce(NEW, OLD);
END $$
"""


def test_a_trigger_that_sets_the_time_zone_hides_no_deleted_key(
    ledger_database: tuple[Engine, dict[str, Any]],
) -> None:
    """B8, G51: the key is kept as a text, which must be the same one in every batch."""
    schema = SCHEMA.set(0, pa.field("id", pa.timestamp("us", "UTC")))
    shop, key = Shop(ledger_database, "place", schema), datetime(2026, 1, 31, tzinfo=UTC)
    shop.publish([(key, "a")], places=[1])
    shop.desk.sql(ELSEWHERE)
    shop.desk.sql(
        f"CREATE TRIGGER sets BEFORE INSERT OR UPDATE OR DELETE ON {shop.desk.target}"
        " FOR EACH ROW EXECUTE FUNCTION public.elsewhere()"
    )
    shop.publish([(key, None)], places=[3])
    shop.publish([], [(key, "older")], places=[2])
    assert shop.rows() == {}
    shop.publish([(key, "newer")], places=[4])
    assert shop.desk.sql(f"SELECT 1 FROM tidemark.deleted_keys WHERE {shop.desk.here}") == []


def test_ties_go_to_the_larger_partition_and_offset(ordered: Shop) -> None:
    """B8: as DESIGN says; in one batch and over two, in either order of arrival."""
    ordered.publish([(1, "a"), (1, "b")], [(1, "c")], places=[5, 5, 5])
    assert ordered.rows() == {1: "c"}
    ordered.publish([(1, "d")], places=[5])
    assert ordered.rows() == {1: "c"}, "partition 1 is the larger one"
    ordered.publish([], [(1, "e")], places=[5])
    assert ordered.rows() == {1: "e"}, "the same partition, a later offset"


@pytest.mark.parametrize(
    ("row", "case", "why"),
    [
        ((None, "a", 0, False, TOPIC, 0, 0), RowUnplaced, "null_key"),
        ((1, "a", None, False, TOPIC, 0, 0), RowUnplaced, "null_order"),
        ((1, "a", 0, False, TOPIC, 0, 1), LastRowUnknown, "of_no_record"),
        ((1, "a", 0, False, "other", 0, 0), LastRowUnknown, "of_no_record"),
        ((1, "a", 0, False, None, None, None), LastRowUnknown, "of_no_record"),
    ],
)
def test_what_decides_must_be_there(
    ordered: Shop, row: tuple[Any, ...], case: type[RowUnplaced | LastRowUnknown], why: str
) -> None:
    """B16: nulls and coordinates that lie are refused, and nothing is published."""
    ordered.desk.grow(1)
    with pytest.raises(case) as refused:
        ordered.publish_rows([row])
    assert refused.value.why == why
    assert ordered.counts() == []


def test_two_rows_of_one_record_are_no_order(ordered: Shop) -> None:
    """B16: which of them came last would be chance."""
    ordered.desk.grow(1)
    with pytest.raises(LastRowUnknown):
        ordered.publish_rows([(1, w, 0, False, TOPIC, 0, 0) for w in "ab"])


def test_a_row_that_somebody_changed_stops_a_rewind(shop: Shop) -> None:
    """B4, B16: of a key that a later batch changed, and of one that it made."""
    shop.publish([(1, "a")])
    shop.publish([(1, "b"), (2, "c")])
    shop.desk.sql(f"DELETE FROM {shop.desk.target} WHERE id = 1")
    with pytest.raises(KeysChangedByOthers):
        shop.desk.rewind(1)
    shop.desk.sql(f"UPDATE {shop.desk.target} SET id = 1")
    with pytest.raises(RemovalDiffers):
        shop.desk.rewind(1)
    assert shop.rows() == {1: "c"}


def test_a_row_that_somebody_added_stops_a_rewind(shop: Shop) -> None:
    """B4, B16: the ledger published fewer changes than the rewind would take back."""
    shop.publish([(1, "a")])
    shop.publish([(1, "b")])
    shop.desk.sql(
        f"INSERT INTO {shop.desk.target} SELECT 5, word, place, kafka_topic, kafka_partition,"
        f" kafka_offset, batch_seq FROM {shop.desk.target}"
    )
    with pytest.raises(RemovalDiffers):
        shop.desk.rewind(1)
    assert shop.rows() == {1: "b", 5: "b"}


def test_a_trigger_that_keeps_a_row_stops_the_publish(shop: Shop) -> None:
    """B16: a deletion, an insert and an update that a trigger swallows are no publish."""
    shop.publish([(1, "a"), (2, "b")])
    before = shop.whole()
    for event, change in (("DELETE", (1, None)), ("UPDATE", (1, "c")), ("INSERT", (3, "c"))):
        with kept(shop, event), pytest.raises((MarkedRowsKept, TargetKeptRowsOut)) as refused:
            shop.publish([change])
        assert refused.value.fields()["by"] == ["trigger keeps"]
        assert shop.whole() == before


def test_rows_from_before_are_overwritten_and_come_back(shop: Shop) -> None:
    """B8: a table may hold rows already; columns that the rows lack are left as they are."""
    table = shop.desk.target
    shop.desk.sql(f"ALTER TABLE {table} ADD note text DEFAULT 'n'")
    shop.desk.sql(f"INSERT INTO {table} (id, word, note, batch_seq) VALUES (1, 'old', 'kept', 0)")
    shop.publish([(1, "new"), (2, "b")])
    assert shop.desk.sql(f"SELECT id, word, note FROM {table} ORDER BY 1") == [
        (1, "new", "kept"),
        (2, "b", "n"),
    ]
    shop.desk.rewind(0)
    assert shop.desk.sql(f"SELECT id, word, note FROM {table}") == [(1, "old", "kept")]


def test_the_table_has_a_unique_index_on_the_key(shop: Shop) -> None:
    """B8: a new table gets a primary key; one without an index is refused with the statement."""
    name = shop.desk.target.table
    assert shop.desk.sql(f"SELECT 1 FROM pg_constraint WHERE conname = '{name}_pkey'") == [(1,)]
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} DROP CONSTRAINT {name}_pkey")
    for index in ("(id) WHERE id > 0", "((id + 1))", "(id, word)"):
        shop.desk.sql(f"CREATE UNIQUE INDEX ON {shop.desk.target} {index}")
    with pytest.raises(UniqueIndexMissing) as caught:
        ensured(shop)
    assert [*map(str, caught.value.key)] == ["id"]
    shop.desk.sql(f"CREATE UNIQUE INDEX ON {shop.desk.target} (id) INCLUDE (word)")
    ensured(shop)


def test_an_unfit_key_is_refused_before_anything_is_read(
    ledger_database: tuple[Engine, dict[str, Any]],
) -> None:
    """B16: keys whose equal values have different texts, columns that are not there."""
    floats = SCHEMA.set(0, pa.field("id", pa.float64()))
    for schema, upsert, case in (
        (floats, Upsert(("id",)), ColumnTypeUnfit),
        (SCHEMA, Upsert(("nobody",)), UpsertColumnsMissing),
        (SCHEMA, Upsert(("id",), "gone"), ColumnTypeUnfit),
        (SCHEMA, Upsert(("id",), None, "word"), DeletedIsNoBoolean),
        (SCHEMA.remove(6), Upsert(("id",)), RowsLackCoordinates),
    ):
        with pytest.raises(case):
            Desk(*ledger_database, schema=schema, upsert=upsert)


def test_a_topic_is_no_partition_of_another(shop: Shop) -> None:
    """B8: partition 0 of two topics is two partitions, in one batch and over two."""
    shop.desk.grow(1)
    with pytest.raises(LastRowUnknown):
        shop.publish_rows([(1, "a", 0, False, topic, 0, 0) for topic in (TOPIC, "another")])
    shop.publish([(1, "a")])
    shop.desk.sql(f"UPDATE {shop.desk.target} SET kafka_topic = 'another'")
    with pytest.raises(LastRowUnknown):
        shop.publish([(1, "b")])


def test_what_was_there_comes_back_to_the_bit(
    ledger_database: tuple[Engine, dict[str, Any]],
) -> None:
    """B4: also where the role's settings write dates, floats and bytes in other ways."""
    odd = (
        "-c datestyle=SQL,DMY -c timezone=Asia/Tokyo -c extra_float_digits=-9"
        " -c bytea_output=escape -c array_nulls=off -c xmloption=document"
        " -c intervalstyle=sql_standard -c quote_all_identifiers=on"
    )
    _, parameters = ledger_database
    engine = connect({**parameters, "options": odd})
    schema = pa.schema([("id", pa.timestamp("us", "UTC")), ("word", pa.float64()),
                        ("place", pa.binary()), *list(SCHEMA)[3:]])  # fmt: skip
    shop = Shop((engine, parameters), None, schema)
    shop.desk.sql(
        f"ALTER TABLE {shop.desk.target} ADD many text[] DEFAULT ARRAY[NULL, 'NULL'],"
        " ADD price money DEFAULT 1.5, ADD class regclass DEFAULT 'pg_catalog.pg_class',"
        " ADD span interval DEFAULT '-1 year -2 days 3 hours'"
    )
    when = datetime(2026, 2, 3, 4, 5, 6, 7, UTC)
    rows = [(when, 0.1 + 0.2, b"\x00\\x", False), (when, -0.0, b"", False), (when, 1.5, b"", True)]
    seen = []
    for row in rows:
        shop.desk.grow(1)
        shop.publish_rows([(*row, TOPIC, 0, shop.desk.ends[TopicPartition(TOPIC, 0)] - 1)])
        seen.append(exact(shop))
    for seq in (2, 1):
        shop.desk.rewind(seq)
        assert exact(shop) == seen[seq - 1]
    engine.dispose()


def test_a_trigger_that_keeps_a_row_stops_a_rewind(shop: Shop) -> None:
    """B4, B16: a row that was to go, one that was to change, one that was to come back."""
    shop.publish([(1, "a"), (2, "b")])
    shop.publish([(1, "c"), (2, None), (3, "d")])
    before = shop.whole()
    for event, when in (("DELETE", ""), ("UPDATE", ""), ("INSERT", "WHEN (NEW.id = 2)")):
        with kept(shop, event, when), pytest.raises(KeysNotPutBack) as caught:
            shop.desk.rewind(1)
        assert [*map(str, caught.value.by)] == ["trigger keeps"]
        assert shop.whole() == before
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}


def test_a_column_that_came_later_is_left_as_it_is(shop: Shop) -> None:
    """B4: rows that were kept before know nothing of it; those that were kept since do."""
    table = shop.desk.target
    shop.publish([(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    shop.publish([(1, "e"), (2, None)])
    shop.desk.sql(f"ALTER TABLE {table} ADD seen text NOT NULL DEFAULT 'no'")
    shop.desk.sql(f"UPDATE {table} SET seen = 'yes'")
    shop.publish([(3, "f"), (4, None)])
    shop.desk.sql(f"UPDATE {table} SET seen = 'again' WHERE id = 3")
    shop.desk.rewind(1)
    seen = dict(shop.desk.sql(f"SELECT id, seen FROM {table}"))
    assert shop.rows() == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert seen == {1: "yes", 2: "no", 3: "yes", 4: "yes"}


def test_a_column_that_went_is_not_put_back(shop: Shop) -> None:
    """B4: it is gone with its values; under another name they would stay, so that is refused."""
    table = shop.desk.target
    shop.desk.sql(f"ALTER TABLE {table} ADD seen text, ADD noted text")
    shop.publish([(1, "a"), (2, "b")])
    shop.publish([(1, "c"), (2, None)])
    before = shop.whole()
    shop.desk.sql(f"ALTER TABLE {table} RENAME noted TO remarked")
    with pytest.raises(KeptRowsHaveOtherColumns) as caught:
        shop.desk.rewind(1)
    assert [*map(str, caught.value.lost)] == ["noted"]
    assert [*map(str, caught.value.got)] == ["remarked"]
    assert shop.whole() == before
    shop.desk.sql(f"ALTER TABLE {table} DROP remarked, DROP seen")
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}


def test_no_rewind_goes_back_behind_what_was_pruned(shop: Shop) -> None:
    """B4: what keys were is pruned with the checkpoints: the rewind is refused, not guessed."""
    for word in "abc":
        shop.publish([(1, word), (2, word)])
    prune(shop.desk.ledger, shop.desk.region, shop.epoch, 2)
    kept_of = f"SELECT DISTINCT seq FROM tidemark.undo WHERE {shop.desk.here} ORDER BY 1"
    assert shop.desk.sql(kept_of) == [(3,)]
    assert shop.desk.sql(kept_of.replace("undo", "undo_columns")) == [(3,)]
    with pytest.raises(KeptRowsPruned) as caught:
        shop.desk.rewind(0)
    assert caught.value.oldest_seq == 2
    assert shop.rows() == {1: "c", 2: "c"}
    shop.desk.rewind(2)
    assert shop.rows() == {1: "b", 2: "b"}


def test_a_large_upsert_stops_no_prune(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """S18: what its keys were is swept in slices, for which no checkpoint waits."""
    monkeypatch.setattr(retire, "TIDYING_SECONDS", 0)
    monkeypatch.setattr(retire, "SWEEP_ROWS", 2)
    for word in "abc":
        shop.publish([(number, word) for number in range(3)])
    left = f"SELECT count(*) FROM tidemark.undo WHERE {shop.desk.here}"
    oldest = f"SELECT oldest_seq FROM tidemark.regions WHERE {shop.desk.here}"
    found = []
    for _ in range(4):
        prune(shop.desk.ledger, shop.desk.region, shop.desk.epoch, 1)
        found.append((*shop.desk.sql(oldest)[0], *shop.desk.sql(left)[0]))
    assert found == [(1, 6), (2, 4), (3, 2), (3, 0)]


def test_a_rewind_is_refused_while_what_it_needs_is_swept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G56: of some keys it is known still."""
    monkeypatch.setattr(retire, "TIDYING_SECONDS", 0)
    monkeypatch.setattr(retire, "PRUNE_STEP", 9)
    monkeypatch.setattr(retire, "SWEEP_ROWS", 1)
    for word in "abc":
        shop.publish([(number, word) for number in range(3)])
    prune(shop.desk.ledger, shop.desk.region, shop.desk.epoch, 1)
    [(left,)] = shop.desk.sql(f"SELECT count(*) FROM tidemark.undo WHERE {shop.desk.here}")
    assert left == 5
    with pytest.raises(KeptRowsPruned):
        shop.desk.rewind(0)


def appends(shop: Shop) -> None:
    """The pipeline appends from now on, as after a change that somebody accepted."""
    shop.desk.target_writer = replace(
        shop.desk.target_writer, upsert=None, skipped_columns=frozenset({"gone"})
    )


def test_a_rewind_takes_back_each_batch_in_its_own_way(shop: Shop) -> None:
    """B4: appended rows go, upserted keys are what they were; both at once is refused."""
    shop.publish([(1, "a"), (2, "b")])
    shop.publish([(1, "c"), (2, None)])
    appends(shop)
    shop.publish([(5, "e")])
    with pytest.raises(PublishedOtherwiseBefore) as caught:
        shop.desk.rewind(1)
    assert (caught.value.seq, caught.value.keys) == (2, (("id",), None))
    assert shop.rows() == {1: "c", 5: "e"}
    shop.desk.rewind(2)
    assert shop.rows() == {1: "c"}
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}


def test_a_rewind_finds_rows_by_the_key_of_their_own_batches(shop: Shop) -> None:
    """B4: another key has other texts for the same row, and the same texts for another one."""
    shop.publish([(1, "a"), (2, "b")])
    shop.publish([(1, "x"), (2, "y")])
    shop.desk.sql(f"CREATE UNIQUE INDEX ON {shop.desk.target} (word)")
    shop.desk.target_writer = replace(
        shop.desk.target_writer, upsert=Upsert(("word",), None, "gone")
    )
    shop.publish([(8, "x")])
    with pytest.raises(PublishedOtherwiseBefore) as caught:
        shop.desk.rewind(1)
    assert (caught.value.seq, caught.value.keys) == (2, (("id",), ("word",)))
    shop.desk.rewind(2)
    assert shop.rows() == {1: "x", 2: "y"}
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}


def test_forgotten_upserts_are_not_deleted_like_appended_rows(shop: Shop) -> None:
    """B4: what keys were before them is no longer kept, whatever came later."""
    shop.desk.sql(f"INSERT INTO {shop.desk.target} (id, word, batch_seq) VALUES (1, 'mine', 0)")
    shop.publish([(1, "a")])
    appends(shop)
    for key in (5, 6, 7):
        shop.publish([(key, "e")])
    prune(shop.desk.ledger, shop.desk.region, shop.epoch, 2)
    with pytest.raises(KeptRowsPruned) as caught:
        shop.desk.rewind(0)
    assert caught.value.oldest_seq == 3
    assert shop.rows() == {1: "a", 5: "e", 6: "e", 7: "e"}


def test_a_rewind_needs_the_key_still_to_be_unique(shop: Shop) -> None:
    """B4: rows that are put back are found by it."""
    table = shop.desk.target
    shop.publish([(1, "a")])
    shop.publish([(1, "b")])
    shop.desk.sql(f"ALTER TABLE {table} DROP CONSTRAINT {table.table}_pkey")
    with pytest.raises(UniqueIndexMissing):
        shop.desk.rewind(1)
    assert shop.rows() == {1: "b"}


def test_a_missing_right_is_named(shop: Shop) -> None:
    """B16: with the statement that grants it, before anything is read."""
    shop.desk.sql(f"REVOKE UPDATE, DELETE ON {shop.desk.target} FROM CURRENT_USER")
    with pytest.raises(TargetRightMissing) as caught:
        ensured(shop)
    assert caught.value.grant.startswith("GRANT UPDATE, DELETE ON ")


def test_rows_that_claim_to_be_of_a_batch_are_overwritten_like_others(shop: Shop) -> None:
    """B8: as in a table restored from a dump; no batch loses more than it moved."""
    shop.publish([(1, "a")])
    shop.desk.sql(
        f"INSERT INTO {shop.desk.target} SELECT n, word, place, kafka_topic, kafka_partition,"
        f" kafka_offset, batch_seq FROM {shop.desk.target}, generate_series(2, 3) n"
    )
    shop.publish([(1, "b"), (2, "b"), (3, "b")])
    assert shop.rows() == {1: "b", 2: "b", 3: "b"}
    assert [counted[-1] for counted in shop.counts()] == [1, 0]
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "a", 3: "a"}


@pytest.mark.parametrize("order", [None, pytest.param("place", marks=pytest.mark.long)])
@pytest.mark.parametrize(("to_seq", "was"), [(1, "a"), (2, "back")])
@pytest.mark.parametrize(("word", "left"), [("again", {1: "again", 2: "b"}), (None, {2: "b"})])
def test_a_deleted_key_that_somebody_put_back_is_a_row_like_others(
    ledger_database: tuple[Engine, dict[str, Any]],
    order: str | None,
    word: str | None,
    left: dict[int, str],
    to_seq: int,
    was: str,
) -> None:
    """B8: its next change finds the row, also from another partition; rewinds go back over it."""
    shop = Shop(ledger_database, order)
    shop.publish([(1, "a"), (2, "b")], places=[1, 1] if order else ())
    shop.publish([(1, None)], places=[9] if order else ())
    back = f"INSERT INTO {shop.desk.target} (id, word, place, batch_seq) VALUES (1, 'back', 2, 0)"
    shop.desk.sql(back)
    shop.publish([], [(1, word)], places=[3] if order else ())
    assert shop.rows() == left
    shop.desk.rewind(to_seq)
    assert shop.rows() == {1: was, 2: "b"}


def test_an_index_that_calls_different_texts_equal_is_refused(
    ledger_database: tuple[Engine, dict[str, Any]],
) -> None:
    """B16: the ledger keeps keys as texts, and would take two of the table's keys for one."""
    shop = Shop(ledger_database, None, SCHEMA.set(0, pa.field("id", pa.string())))
    shop.desk.sql(f"ALTER TABLE {shop.desk.target} ALTER id TYPE text COLLATE {blind(shop)}")
    with pytest.raises(CollationNondeterministic):
        ensured(shop)


def test_a_column_that_calls_different_texts_equal_is_refused(
    ledger_database: tuple[Engine, dict[str, Any]],
) -> None:
    """B16: whatever the index says, an upsert finds a key's row by the column."""
    shop = Shop(ledger_database, None, SCHEMA.set(0, pa.field("id", pa.string())))
    table = shop.desk.target
    shop.publish([("A", "upper")])
    shop.desk.sql(
        f"ALTER TABLE {table} DROP CONSTRAINT {table.table}_pkey,"
        f" ALTER id TYPE text COLLATE {blind(shop)};"
        f'CREATE UNIQUE INDEX ON {table} (id COLLATE "C")'
    )
    with pytest.raises(CollationNondeterministic):
        ensured(shop)
    with pytest.raises(CollationNondeterministic):
        shop.publish([("a", None)])
    assert shop.rows() == {"A": "upper"}


def blind(shop: Shop) -> str:
    """A collation that takes no notice of upper and lower case."""
    name = f"public.blind_{shop.desk.region}"
    try:
        shop.desk.sql(
            f"CREATE COLLATION {name} (provider = icu, locale = 'und-u-ks-level2',"
            " deterministic = false)"
        )
    except LedgerTablesDiffer:
        pytest.skip("this Postgres is built without ICU, which all such collations need")
    return name


def test_a_deferrable_index_is_no_index(shop: Shop) -> None:
    """B16: ON CONFLICT can't use it."""
    table = shop.desk.target
    shop.desk.sql(f"ALTER TABLE {table} DROP CONSTRAINT {table.table}_pkey")
    shop.desk.sql(f"ALTER TABLE {table} ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
    with pytest.raises(UniqueIndexMissing):
        ensured(shop)


def test_own_column_names_are_refused(ledger_database: tuple[Engine, dict[str, Any]]) -> None:
    """B16: an upsert's own columns stand beside the rows'."""
    schema = SCHEMA.append(pa.field("tidemark rows", pa.int64()))
    with pytest.raises(UpsertColumnsReserved) as caught:
        Shop(ledger_database, None, schema)
    assert caught.value.prefix == "tidemark "


def test_last_rows_meet_the_stored_ones_by_their_keys(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8: Postgres compares no two of which the keys differ."""
    plans = []
    do = Upserting._do

    def explained(self: Upserting, statement: sql.SQL) -> int:
        if statement in (upsert_sql.HELD, upsert_sql.UNDO):
            self._cursor.execute(sql.SQL("EXPLAIN {}").format(statement.format(**self._names)))
            plans.append("\n".join(line for (line,) in self._cursor.fetchall()))
        return do(self, statement)

    monkeypatch.setattr(Upserting, "_do", explained)
    for _ in range(2):
        shop.publish([(n % 450, "a") for n in range(900)])
    assert len(plans) == 3, "no key was there at first, so nothing of it is kept"
    for plan in plans:
        assert re.search(r"(Hash|Merge) Cond: .*\bid = \w+\.id\b", plan), plan


def test_a_second_row_of_a_record_further_back_is_no_tie(ordered: Shop) -> None:
    """B8: the last row stands alone, whatever stands behind it."""
    ordered.desk.grow(2)
    rows = [(1, "a", 5, False, TOPIC, 0, 0), (1, "b", 5, False, TOPIC, 0, 0)]
    ordered.publish_rows([*rows, (1, "c", 6, False, TOPIC, 0, 1)])
    assert ordered.rows() == {1: "c"}


def test_two_last_rows_of_one_record_are_seen_before_an_older_one(shop: Shop) -> None:
    """B16: a third row of the key hides nothing."""
    shop.desk.grow(2)
    rows = [(1, word, 0, False, TOPIC, 0, place) for word, place in (("a", 0), ("b", 1), ("c", 1))]
    with pytest.raises(LastRowUnknown):
        shop.publish_rows(rows)


def test_any_other_partition_of_a_key_is_seen(shop: Shop) -> None:
    """B16: also if its row is neither the last one nor beside it."""
    with pytest.raises(LastRowUnknown):
        shop.publish([(1, "a")], [(1, "b"), (1, "c"), (1, "d")])


def beside(patch: pytest.MonkeyPatch, name: str, act: Callable[[], object], times: int) -> None:
    """Another session acts right behind this step of the publish, so many times."""
    step, acted = getattr(Upserting, name), list[object]()

    def stepped(self: Upserting, *given: object) -> object:
        found = step(self, *given)
        if len(acted) < times:
            acted.append(act())
        return found

    patch.setattr(Upserting, name, stepped)


@pytest.mark.parametrize("order", [None, "place"])
@pytest.mark.parametrize("step", ["_find_last", "_keep_undo"])
@pytest.mark.parametrize("word", ["ours", None])
@pytest.mark.parametrize("others", [(), (1,)])
def test_a_key_that_somebody_inserts_meanwhile_comes_back_in_a_rewind(
    ledger_database: tuple[Engine, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    order: str | None,
    step: str,
    word: str | None,
    others: tuple[int, ...],
) -> None:
    """B8: the row is the batch's, or gone, and what it was is known all the same."""
    shop = Shop(ledger_database, order)
    table = shop.desk.target
    shop.publish([(1, "a"), (7, "gone")])
    shop.publish([(7, None)])
    theirs = f"INSERT INTO {table} (id, word, batch_seq) VALUES (5, 'theirs', 0)"
    beside(monkeypatch, step, lambda: shop.desk.sql(theirs), 1)
    shop.publish([*((one, "b") for one in others), (5, word), (6, "new")])
    changed = dict.fromkeys(others, "b")
    ours = {5: word} if word else {}
    assert shop.rows() == {1: "a", 6: "new", **changed, **ours}
    shop.desk.rewind(2)
    assert shop.rows() == {1: "a", 5: "theirs"}


def test_a_key_that_somebody_inserts_behind_its_deletion_is_deleted_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8, G159: no trigger of the target is blamed for it."""
    shop.publish([(1, "a")])
    theirs = f"INSERT INTO {shop.desk.target} (id, word, batch_seq) VALUES (5, 'theirs', 0)"
    beside(monkeypatch, "_write", lambda: shop.desk.sql(theirs), 1)
    shop.publish([(5, None)])
    assert shop.rows() == {1: "a"}
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 5: "theirs"}


def test_a_row_that_comes_while_rows_are_kept_is_held_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G159: else it may be gone again before the write, and a rewind brings it back."""
    table = shop.desk.target
    shop.publish([(1, "a")])
    theirs = f"INSERT INTO {table} (id, word, batch_seq) VALUES (5, 'theirs', 0)"

    def delete() -> None:
        with pytest.raises(PostgresUnreachable) as waits:
            shop.desk.sql(f"SET lock_timeout = '10ms'; DELETE FROM {table} WHERE id = 5")
        assert waits.value.sqlstate == psycopg2.errorcodes.LOCK_NOT_AVAILABLE

    beside(monkeypatch, "_refuse_other_partitions", lambda: shop.desk.sql(theirs), 1)
    beside(monkeypatch, "_keep_undo", delete, 1)
    shop.publish([(1, "b"), (5, "ours")])
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 5: "theirs"}


@pytest.mark.parametrize(("others", "few"), [((), 9), ((1,), 9), ((1,), 0)])
def test_a_key_whose_insert_is_waited_for_comes_back_in_a_rewind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, others: tuple[int, ...], few: int
) -> None:
    """B8, G159: no statement that has begun sees the row, and none of its counts has it."""
    monkeypatch.setattr(_upsert, "FEW", few)
    shop.publish([(1, "a")])
    theirs = f"INSERT INTO {shop.desk.target} (id, word, batch_seq) VALUES (5, 'theirs', 0)"
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with closing(open_session(shop.desk.warehouse)) as session, session.cursor() as cursor:

        def commit() -> None:
            until(lambda: shop.desk.sql(waiting) == [(1,)])
            session.commit()

        committing = Thread(target=commit)

        def insert() -> None:
            cursor.execute(theirs)
            committing.start()

        beside(monkeypatch, "_keep_undo", insert, 1)
        shop.publish([*((one, "b") for one in others), (5, "ours")])
        committing.join()
    assert shop.rows() == {1: "b" if others else "a", 5: "ours"}
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 5: "theirs"}


def test_a_row_that_is_upserted_is_held_until_the_commit(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what another session makes of it is overwritten, and a rewind knows nothing of it."""
    table = shop.desk.target
    shop.publish([(1, "a"), (2, "b")])
    changes = (f"UPDATE {table} SET word = 'theirs' WHERE id = 1", f"DELETE FROM {table}")

    def act() -> None:
        for change in changes:
            with pytest.raises(PostgresUnreachable) as waits:
                shop.desk.sql(f"SET lock_timeout = '10ms'; {change}")
            assert waits.value.sqlstate == psycopg2.errorcodes.LOCK_NOT_AVAILABLE

    beside(monkeypatch, "_find_last", lambda: shop.desk.sql(changes[0]), 1)
    beside(monkeypatch, "_keep_undo", act, 1)
    shop.publish([(1, "ours"), (2, None)])
    assert shop.rows() == {1: "ours"}
    shop.desk.rewind(1)
    assert shop.rows() == {1: "theirs", 2: "b"}


def test_others_that_write_again_and_again_stop_the_publish(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it stands, and the next run is not in their way."""
    shop.publish([(1, "a")])
    before = shop.whole()
    new = iter(range(10, 100))

    def act() -> None:
        shop.desk.sql(
            f"INSERT INTO {shop.desk.target} (id, word, batch_seq) VALUES ({next(new)}, 'x', 0)"
        )

    with monkeypatch.context() as patch:
        beside(patch, "_keep_undo", act, 100)
        with pytest.raises(OthersWrite):
            shop.publish([(1, "b"), *((key, "c") for key in range(10, 20))])
    shop.desk.sql(f"DELETE FROM {shop.desk.target} WHERE id >= 10")
    assert shop.whole() == before


def test_keys_that_go_in_one_after_the_other_are_kept_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two words change places; another session takes a key that is still to come."""
    table = shop.desk.target
    shop.desk.sql(f"ALTER TABLE {table} ADD UNIQUE (word)")
    shop.publish([(1, "a"), (2, "b")])
    theirs = f"INSERT INTO {table} (id, word, batch_seq) VALUES (3, 'theirs', 0)"
    in_order = Upserting._apply_in_order
    acted = list[object]()

    def late(self: Upserting) -> int | None:
        if not acted:
            acted.append(shop.desk.sql(theirs))
        return in_order(self)

    monkeypatch.setattr(Upserting, "_apply_in_order", late)
    shop.publish([(1, "c"), (2, "a"), (1, "b"), (3, "ours")])
    assert acted
    assert shop.rows() == {1: "b", 2: "a", 3: "ours"}
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b", 3: "theirs"}


@pytest.mark.parametrize("change", ["NEW.id := NEW.id + 100", "NEW.batch_seq := 0"])
@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
def test_a_trigger_that_gives_rows_another_key_stops_the_publish(
    shop: Shop, change: str, event: str
) -> None:
    """No deletion, no later row and no rewind would find them."""
    table, name = shop.desk.target, shop.desk.region
    shop.publish([(1, "a")])
    shop.desk.sql(
        f"CREATE FUNCTION public.alters_{name}() RETURNS trigger LANGUAGE plpgsql"
        f" AS 'BEGIN {change}; RETURN NEW; END'; CREATE TRIGGER alters BEFORE {event} ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION public.alters_{name}()"
    )
    before = shop.whole()
    with pytest.raises(KeysAltered) as refused:
        shop.publish([(1, "b"), (2, "c")])
    assert refused.value.by == ("trigger alters",)
    assert shop.whole() == before


@contextmanager
def kept(shop: Shop, event: str, when: str = "") -> Iterator[None]:
    """A trigger swallows the event."""
    table, name = shop.desk.target, f"public.keep_{shop.desk.region}"
    shop.desk.sql(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RETURN NULL; END $$"
    )
    shop.desk.sql(
        f"CREATE TRIGGER keeps BEFORE {event} ON {table} FOR EACH ROW {when}"
        f" EXECUTE FUNCTION {name}()"
    )
    yield
    shop.desk.sql(f"DROP TRIGGER keeps ON {table}")


def exact(shop: Shop) -> list[tuple[Any, ...]]:
    """Every bit of the target: as Postgres sends it in binary."""
    return shop.desk.sql(
        "SELECT encode(timestamptz_send(id), 'hex'), encode(float8send(word), 'hex'),"
        f" encode(place, 'hex') FROM {shop.desk.target}"
    )


def ensured(shop: Shop) -> None:
    with transaction(shop.desk.engine, "target") as cursor:
        shop.desk.target_writers.ensure_targets(cursor)


def test_rows_that_claim_to_be_of_a_later_batch_are_overwritten_like_others(shop: Shop) -> None:
    """B4, B8: as copied from another region's table; they come back as they were."""
    table = shop.desk.target
    shop.desk.sql(f"INSERT INTO {table} (id, word, batch_seq) VALUES (1, 'a', 900), (2, 'b', 1)")
    before = shop.whole()
    shop.publish([(1, "x"), (2, "y"), (3, "z")])
    shop.publish([(1, None), (2, "w")])
    assert shop.rows() == {2: "w", 3: "z"}
    shop.desk.rewind(0)
    assert shop.whole() == before


def restored(shop: Shop, dump: str) -> None:
    """The table is gone, and one of that name is made from a dump."""
    table = shop.desk.target
    shop.desk.sql(f"DROP TABLE {table}")
    shop.desk.sql(f"CREATE TABLE {table} (LIKE {dump} INCLUDING ALL)")
    shop.desk.sql(f"INSERT INTO {table} SELECT * FROM {dump}")


def dumped(shop: Shop) -> str:
    """A copy of the table as it is now."""
    dump = f"public.dump_{shop.desk.region}"
    shop.desk.sql(f"CREATE TABLE {dump} (LIKE {shop.desk.target} INCLUDING ALL)")
    shop.desk.sql(f"INSERT INTO {dump} SELECT * FROM {shop.desk.target}")
    return dump


@pytest.mark.parametrize("word", ["e", None])
def test_a_table_that_was_restored_and_accepted_goes_on(shop: Shop, word: str | None) -> None:
    """B4, B8: rows that were replaced or deleted since the dump are so again, and are counted."""
    shop.publish([(1, "a"), (2, "b"), (3, "c")])
    dump = dumped(shop)
    shop.publish([(1, "d"), (2, None)])
    restored(shop, dump)
    with pytest.raises(ChangedSinceCheckpoint):
        shop.publish([(1, word), (2, word)])
    shop.overrides = ("accept_changes",)
    shop.desk.grow(-2)
    at_2 = shop.whole()[0]
    shop.publish([(1, word), (2, word)])
    assert shop.rows() == ({1: "e", 2: "e", 3: "c"} if word else {3: "c"})
    assert [counted[-1] for counted in shop.counts()] == [2, 0, 0]
    shop.desk.rewind(2)
    assert shop.whole()[0] == at_2
    with pytest.raises(KeysChangedByOthers):
        shop.desk.rewind(1)
    assert shop.whole()[0] == at_2


def test_a_rewind_behind_a_restored_table_is_exact_where_all_changed_since(shop: Shop) -> None:
    """B4: each key is of a batch that is taken back, and the ledger has what it was."""
    shop.publish([(1, "a"), (2, "b")])
    dump = dumped(shop)
    shop.publish([(1, "c"), (2, "d")])
    restored(shop, dump)
    shop.overrides = ("accept_changes",)
    shop.publish([(1, "e"), (2, "f")])
    shop.desk.rewind(1)
    assert shop.rows() == {1: "a", 2: "b"}
    shop.publish([(1, None), (2, "g")])
    assert shop.rows() == {2: "g"}
