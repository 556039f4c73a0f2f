"""A region that upserts, from topic to table: tombstones, rewinds, proofs, status."""

import json
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer
from tests.support.world import World

from tidemark.model.batch import ONLY
from tidemark.runs.region import region_of
from tidemark.verify.report import Kind, Report
from tidemark.verify.verify import verify
from tidemark.views.status import TargetStatus, counted

UPSERT = {
    "decode": {"schema": {"word": "string", "place": "int"}, "metadata": ["key", "tombstone"]},
    "target": {"mode": "upsert", "key": ["kafka_key"], "deleted": "kafka_tombstone"},
}


@pytest.fixture
def shop(world: World) -> World:
    """A region whose target holds a record's key with its last word."""
    world.settings |= UPSERT
    return world


def send(shop: World, changes: Iterable[tuple[str, str | None]], partition: int = 0) -> None:
    """Each key has a new word, or none."""
    for key, word in changes:
        value = None if word is None else json.dumps({"word": word, "place": 1})
        send_value(shop, key, value, partition)


def send_value(shop: World, key: str, value: str | None, partition: int) -> None:
    """The record is in the topic."""
    producer = Producer({"bootstrap.servers": shop.kafka, "linger.ms": 1})
    producer.produce(shop.topic, value, key, partition=partition)
    assert producer.flush(120) == 0


def words(shop: World) -> dict[str, str]:
    """The target."""
    return {bytes(key).decode(): word
            for key, word in shop.sql("SELECT kafka_key, word FROM public.records")}  # fmt: skip


def proof(shop: World) -> Report:
    return verify(shop.pipeline, shop.connections, executor_of=shop.executor_of)


def found(shop: World) -> set[tuple[Kind, str]]:
    """What a proof finds wrong."""
    report = proof(shop)
    batches = [one for batch in report.batches for one in batch.differences]
    return {(one.kind, one.what) for one in [*report.differences, *batches]}


def is_well(shop: World) -> bool:
    """The proof finds every batch equal, and the counts of ledger and table agree."""
    report = proof(shop)
    with region_of(shop.pipeline, shop.connections) as region:
        status = counted(region, TargetStatus(ONLY, shop.pipeline.into, 0, 0))
    return report.wrong == 0 and not report.unverifiable and status.drift == 0


def filled(shop: World) -> World:
    """Five batches that insert, change, delete and bring keys back, in two partitions."""
    send(shop, [("a", "1"), ("b", "2"), ("a", "3"), ("c", None), ("d", "4"), ("b", None)])
    send(shop, [("d", "5"), ("b", "6"), ("a", None), ("c", "7"), ("c", "8")])
    send(shop, [("x", "1"), ("y", None), ("x", "2"), ("z", "3")], partition=1)
    shop.run(max_records=3)
    return shop


def test_keys_have_their_last_word(shop: World) -> None:
    """B8: over batches of three records, deletions by tombstones, each batch proven."""
    filled(shop)
    assert words(shop) == {"b": "6", "c": "8", "d": "5", "x": "2", "z": "3"}
    assert len(proof(shop).batches) == 5
    assert is_well(shop)


@pytest.mark.long
def test_a_rewind_is_read_again_to_the_same_table(shop: World) -> None:
    """B4, B8: back to each checkpoint and on again gives the same rows, whatever the cuts."""
    end = words(filled(shop))
    whole = "SELECT kafka_key, word, kafka_partition, kafka_offset FROM public.records ORDER BY 1"
    rows = shop.sql(whole)
    for to in (4, 2, 0):
        shop.reset(to=to)
        assert is_well(shop), f"after the rewind to {to}"
        shop.run(f"after {to}", max_records=4)
        assert (words(shop), shop.sql(whole)) == (end, rows)
        assert is_well(shop)


APPEND = {
    "decode": {"schema": {"word": "string", "place": "int"}, "metadata": ["key"]},
    "target": {"mode": "append"},
}


def test_a_rewind_by_a_file_that_appends_puts_keys_back(shop: World) -> None:
    """B4: the ledger says how batches were published, not what the file has become."""
    send(shop, [("a", "1"), ("b", "2")])
    shop.run("first")
    send(shop, [("a", "3"), ("b", None), ("c", "4")])
    shop.run("second")
    shop.settings |= APPEND
    assert shop.reset(to=1).removed is not None
    assert words(shop) == {"a": "1", "b": "2"}
    shop.settings |= UPSERT
    assert is_well(shop)
    shop.run("third")
    assert words(shop) == {"a": "3", "c": "4"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("doctor", "finds"),
    [
        ("DELETE FROM public.records WHERE word = '8'", (Kind.lost, "row")),
        ("UPDATE public.records SET word = 'other' WHERE word = '8'", (Kind.altered, "row")),
        (
            "INSERT INTO public.records (kafka_key, word, batch_seq) SELECT 'new', word, batch_seq"
            " FROM public.records WHERE word = '8'",
            (Kind.foreign, "row"),
        ),
        ("DELETE FROM tidemark.deleted_keys WHERE key = '{\\\\x79}'", (Kind.lost, "deleted key")),
        (
            "DELETE FROM tidemark.undo WHERE (seq, key) ="
            " (SELECT seq, key FROM tidemark.undo WHERE NOT was_deleted LIMIT 1)",
            (Kind.miscounted, "ledger"),
        ),
    ],
)
def test_a_doctored_row_is_found(shop: World, doctor: str, finds: tuple[Kind, str]) -> None:
    """B5, B8: a row that was lost, altered, added; a deleted key; a count."""
    filled(shop)
    assert found(shop) == set()
    shop.sql(doctor)
    assert finds in found(shop)


@pytest.mark.long
def test_a_row_that_comes_too_late_is_proven_to_be_older(shop: World) -> None:
    """B5, B8: the proof knows a row that was left alone from one that was lost."""
    shop.settings = {
        "decode": {
            "schema": {"word": "string", "place": "int", "gone": "boolean"},
            "metadata": ["key"],
        },
        "target": {"mode": "upsert", "key": ["kafka_key"], "order_by": "place", "deleted": "gone"},
    }
    for number, (key, place) in enumerate([("a", 9), ("b", 9), ("a", 5), ("b", 5), ("c", 1)]):
        gone = (key, place) == ("b", 9)
        value = json.dumps({"word": f"{key}{place}", "place": place, "gone": gone})
        send_value(shop, key, value, partition=number % 2)
    shop.run(max_records=2)
    assert words(shop) == {"a": "a9", "c": "c1"}
    assert is_well(shop)
    shop.sql("UPDATE public.records SET place = 4 WHERE word = 'a9'")
    assert {(Kind.altered, "row"), (Kind.lost, "row")} == found(shop), "now a5 should be there"


@pytest.mark.long
def test_a_row_that_is_refused_is_proven_to_be_a_dead_letter(shop: World) -> None:
    """B5, B8, B15: its key has the row before it, whatever the cuts; a forged one is found."""
    shop.settings["target"] |= {"on_refused": "dead_letter"}
    shop.settings["dead_letters"] = {"max_ratio": 1}
    send(shop, [("q", "0")])
    shop.run()
    shop.sql("ALTER TABLE public.records ADD CHECK (word NOT IN ('5', '8', '2'))")
    filled(shop)
    end = {"b": "6", "c": "7", "d": "4", "x": "1", "z": "3", "q": "0"}
    assert (words(shop), is_well(shop)) == (end, True)
    shop.reset(to=0)
    shop.run("again", max_records=100)
    assert (words(shop), is_well(shop)) == (end, True)
    shop.sql("UPDATE tidemark.dead_letters SET refused_rows = '[]' WHERE partition = 1")
    assert (Kind.altered, "refused record") in found(shop)
