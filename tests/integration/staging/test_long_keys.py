"""Keys that an index of the ledger has no room for: what the target takes, the ledger takes."""

from importlib.resources import files
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Engine
from tests.support.desk import TOPIC
from tests.support.region import ask
from tests.support.shop import SCHEMA, Shop

from tidemark.ledger.migrate import migrate
from tidemark.postgres.errors import LedgerConstraintViolated
from tidemark.postgres.transaction import connect
from tidemark.staging.errors import RowRefused

Database = tuple[Engine, dict[str, Any]]
MIGRATION = files("tidemark").joinpath("sql", "migrations", "0002_long_keys.sql")


def key_of(size: int, seed: int = 0) -> str:
    """A text of so many bytes that does not compress, as the texts of an index may be."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    return "".join(Random(seed).choices(letters, k=size))


def shop_of(database: Database, order_by: str | None = None) -> Shop:
    shop = Shop(database, order_by, SCHEMA.set(0, pa.field("id", pa.string())))
    shop.desk.dead_letters_of = lambda span: []
    return shop


@pytest.mark.parametrize("size", [1990, 2000, 2001, 2660, 2690])
def test_a_key_that_the_target_takes_is_changed_deleted_and_put_back(
    ledger_database: Database, size: int
) -> None:
    """G170: of 2,704 bytes the target's own index has a few more than the ledger's."""
    shop, key = shop_of(ledger_database), key_of(size)
    seen = [shop.whole()]
    for changes in ([(key, "a"), ("b", "b")], [(key, "c")], [(key, None)], [(key, "d")]):
        shop.publish(changes)
        seen.append(shop.whole())
    assert shop.rows() == {key: "d", "b": "b"}
    for seq in (3, 2, 1, 0):
        shop.desk.rewind(seq)
        assert shop.whole() == seen[seq]


def test_a_long_key_that_was_deleted_is_not_brought_back_by_an_older_row(
    ledger_database: Database,
) -> None:
    """G170"""
    shop, key = shop_of(ledger_database, "place"), key_of(2600)
    shop.publish([(key, "a")], places=[10])
    shop.publish([(key, None)], places=[20])
    shop.publish([(key, "late"), (key_of(2600, 1), "other")], places=[15, 15])
    assert shop.rows() == {key_of(2600, 1): "other"}


def test_the_digest_of_a_key_is_no_key_of_its_own(ledger_database: Database) -> None:
    """G170: whoever produces the digest of another key as a key has another row."""
    shop, key = shop_of(ledger_database), key_of(2600)
    shop.publish([(key, "a")])
    shop.publish([(key, None)])
    [(digest,)] = shop.desk.sql(f"SELECT key[2] FROM tidemark.deleted_keys WHERE {shop.desk.here}")
    shop.publish([(digest, "b")], [])
    [(kept,)] = shop.desk.sql(f"SELECT key FROM tidemark.deleted_keys WHERE {shop.desk.here}")
    assert (kept, shop.rows()) == ([None, digest], {digest: "b"})


@pytest.mark.parametrize("is_in_order", [False, True])
@pytest.mark.parametrize("order_by", [None, "place"])
def test_a_deletion_of_a_key_that_no_index_holds_deletes_nothing(
    ledger_database: Database, order_by: str | None, is_in_order: bool
) -> None:
    """G170: any producer can send one; also where the rows go in by the order of their records."""
    shop = shop_of(ledger_database, order_by)
    if is_in_order:
        shop.desk.sql(f"ALTER TABLE {shop.desk.target} ADD UNIQUE (word)")
    shop.publish([("a", "1"), ("b", "2")], places=[1, 1])
    shop.publish([(key_of(6000), None), ("b", "x"), ("a", "2"), ("b", "1")], places=[2, 2, 2, 2])
    assert shop.rows() == {"a": "2", "b": "1"}
    shop.publish([(key_of(6000), None)], places=[3])
    shop.desk.rewind(1)
    assert shop.rows() == {"a": "1", "b": "2"}


def test_a_row_of_a_key_that_no_index_holds_is_refused_alone(ledger_database: Database) -> None:
    """G170, B15: by the target, and its deletion later passes."""
    shop = shop_of(ledger_database)
    with pytest.raises(RowRefused) as refused:
        shop.publish([(key_of(6000), "x")])
    assert (refused.value.sqlstate, refused.value.record) == ("54000", f"{TOPIC}[0]@0")
    assert "2704" in refused.value.names["limit"]
    shop = shop_of(ledger_database)
    shop.let_be_refused()
    shop.publish([(key_of(6000), "x"), ("a", "1")])
    assert (shop.rows(), [one[:2] for one in shop.dead_letters()]) == ({"a": "1"}, [(0, 0)])
    shop.publish([(key_of(6000), None), ("a", "2")])
    assert shop.rows() == {"a": "2"}


def test_of_a_key_of_several_columns_all_texts_count(ledger_database: Database) -> None:
    """G170"""
    schema = SCHEMA.set(0, pa.field("id", pa.string())).set(2, pa.field("place", pa.string()))
    shop = Shop(ledger_database, None, schema, key=("id", "place"))
    shop.desk.dead_letters_of = lambda span: []
    key = key_of(1300), key_of(1300, 1)
    shop.publish([(key[0], "a")], places=[key[1]])
    before = shop.whole()
    shop.publish([(key[0], "b"), (key[0], None)], places=[key[1], "another"])
    shop.desk.rewind(1)
    assert shop.whole() == before


def test_an_older_ledgers_long_keys_are_found_and_its_version_is_fenced(
    warehouse: dict[str, Any],
) -> None:
    """G170: an older Tidemark kept whole texts, looks for them, and would insert more of them."""
    engine = connect(warehouse)
    migrate(engine)
    key, same = key_of(2600), Shop((engine, warehouse), None)
    shop = shop_of((engine, warehouse), "place")
    same.publish([(1, "a")])
    shop.publish([(key, "a"), ("b", "b")], places=[1, 1])
    shop.publish([(key, None), ("b", "c")], places=[20, 20])
    kept = shop.whole()
    for table in ("undo", "deleted_keys"):
        shop.desk.sql(
            f"ALTER TABLE tidemark.{table} DROP CONSTRAINT a_long_key_is_kept_as_its_digest;"
            f"UPDATE tidemark.{table} SET key = ARRAY['{key}'] WHERE key[1] IS NULL"
        )
    epochs = shop.desk.epoch, same.desk.epoch
    assert shop.whole() != kept
    ask(warehouse, MIGRATION.read_text())
    assert shop.whole() == kept
    assert shop.desk.epoch > epochs[0]
    assert same.desk.epoch == epochs[1]
    shop.publish([(key, "late")], places=[15])
    assert shop.rows() == {"b": "c"}
    shop.desk.rewind(1)
    assert shop.rows() == {key: "a", "b": "b"}
    with pytest.raises(LedgerConstraintViolated):
        shop.desk.sql(
            "INSERT INTO tidemark.undo (region, target, seq, key, before_seq, was_deleted, before)"
            f" VALUES ('{shop.desk.region}', '', 9, ARRAY['{key}'], 0, false, '{{}}')"
        )
    engine.dispose()
