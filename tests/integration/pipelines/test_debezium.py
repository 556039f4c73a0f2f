"""B12, B20: a table follows change events, as docs/formats-debezium.md describes it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from tests.support.commands import PIPELINE, answer, settle_in, tidemark, write_pipeline
from tests.support.documents import ROOT, blocks
from tests.support.produce import produce
from tests.support.world import World


def event(op: str, before: Any = None, after: Any = None) -> bytes:
    return json.dumps({"payload": {"op": op, "before": before, "after": after}}).encode()


def test_the_documented_file_keeps_a_table_equal_to_its_source(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8, B12, B20: created, updated, deleted, created again; and proven."""
    settle_in(world, tmp_path, monkeypatch)
    file = yaml.safe_load(blocks(ROOT / "docs" / "formats-debezium.md")[0].text)
    target = file["target"] | {"table": "public.records"}
    write_pipeline(world, decode=file["decode"], target=target)
    ada, eve, bob = ({"id": n, "name": name} for n, name in enumerate(("ada", "eve", "bob")))
    first = [event("r", after=ada), event("c", after=eve), event("c", after=bob)]
    produce(world.kafka, world.topic, first)
    answer("run", PIPELINE)
    then = [
        event("u", ada, ada | {"name": "Ada"}),
        event("d", eve),
        None,
        event("d", bob),
        event("c", after=bob | {"name": "Bob"}),
        event("t"),
        event("d", {"id": 77}),
    ]
    produce(world.kafka, world.topic, then)
    answer("run", PIPELINE)
    assert _table(world) == [(0, "Ada"), (2, "Bob")]
    dead_letters = world.sql('SELECT "offset", reason FROM tidemark.dead_letters ORDER BY 1')
    assert dead_letters == [(5, "NULL_VALUE"), (8, "NOT_A_CHANGE")]
    assert answer("verify", PIPELINE)["clean"]
    world.sql("DELETE FROM public.records WHERE id = 0")
    assert "lost" in tidemark("verify", PIPELINE, exits=1).stdout


def _table(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT id, name FROM public.records ORDER BY 1")


@pytest.mark.long
def test_keys_and_the_order_of_the_source_decide_as_documented(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B8, B12, B20: wherever a change lies, and if its deletion lost the row; and proven."""
    settle_in(world, tmp_path, monkeypatch)
    file = yaml.safe_load(blocks(ROOT / "docs" / "formats-debezium.md")[1].text)
    target = file["target"] | {"table": "public.records"}
    write_pipeline(world, decode=file["decode"], target=target)

    producer = Producer({"bootstrap.servers": world.kafka, "linger.ms": 1})

    def change(partition: int, number: int, lsn: int, name: str | None) -> None:
        op, row = ("d", {}) if name is None else ("u", {"name": name})
        side = "before" if name is None else "after"
        value = json.dumps({"op": op, side: row, "source": {"lsn": lsn}}).encode()
        producer.produce(world.topic, value, json.dumps({"id": number}).encode(), partition)
        assert producer.flush(120) == 0

    change(0, 1, 10, "ada")
    change(0, 2, 11, "eve")
    change(1, 1, 30, "Ada")
    answer("run", PIPELINE)
    change(0, 1, 20, "late")
    change(1, 2, 40, None)
    answer("run", PIPELINE)
    rows = world.sql("SELECT key_id, name FROM public.records")
    assert rows == [(1, "Ada")]
    assert answer("verify", PIPELINE)["clean"]


def wrapped(**row: Any) -> bytes:
    """As Kafka Connect's JsonConverter writes it, unless it is told not to."""
    return json.dumps({"schema": {"type": "struct", "optional": False}, "payload": row}).encode()


def test_the_documented_file_follows_flattened_events_in_both_shapes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B20, G163, G164: a deletion is a text or a boolean; and proven."""
    settle_in(world, tmp_path, monkeypatch)
    file = yaml.safe_load(blocks(ROOT / "docs" / "formats-debezium.md")[2].text)
    target = file["target"] | {"table": "public.records"}
    write_pipeline(world, decode=file["decode"], target=target)
    rows = [{"id": number, "name": f"n{number}", "__deleted": "false"} for number in range(4)]
    gone = [rows[0] | {"__deleted": "true"}, rows[1] | {"__deleted": True}]
    produce(world.kafka, world.topic, [wrapped(**row) for row in rows])
    answer("run", PIPELINE)
    bare = json.dumps(rows[2] | {"name": "bare"}).encode()
    deletions = [wrapped(**gone[0]), json.dumps(gone[1]).encode()]
    produce(world.kafka, world.topic, [*deletions, bare, b"{}"])
    answer("run", PIPELINE)
    assert _table(world) == [(2, "bare"), (3, "n3")]
    reasons = world.sql('SELECT "offset", reason FROM tidemark.dead_letters')
    assert reasons == [(7, "NO_DECLARED_FIELD")]
    assert answer("verify", PIPELINE)["clean"]


def test_records_in_a_wrapper_are_dead_letters_until_the_file_is_corrected(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B20, G162: no row of nulls; then a replay makes rows of them."""
    settle_in(world, tmp_path, monkeypatch)
    fields = {"format": "json", "schema": {"id": "bigint", "name": "string"}}
    write_pipeline(world, decode=fields)
    produce(world.kafka, world.topic, [wrapped(id=number, name="a") for number in range(3)])
    answer("run", PIPELINE)
    assert _table(world) == []
    reasons = world.sql("SELECT DISTINCT reason FROM tidemark.dead_letters")
    assert reasons == [("NO_DECLARED_FIELD",)]
    write_pipeline(world, decode=fields | {"envelope": "connect"})
    tidemark("run", PIPELINE, "--accept-changes")
    found = answer("replay", world.region, "--dead-letters", "--apply", "--why", "an envelope")
    assert (found["replayed"], found["kept"]) == (3, {})
    assert _table(world) == [(0, "a"), (1, "a"), (2, "a")]
    assert answer("verify", PIPELINE)["clean"]


def test_a_flattened_deletion_that_nothing_reads_is_a_dead_letter_of_an_upsert(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B20, G165: of a row that was there, too: the file does not say what it is."""
    settle_in(world, tmp_path, monkeypatch)
    fields = {"format": "json", "schema": {"id": "bigint", "name": "string"}}
    target = {"table": "public.records", "mode": "upsert", "key": ["id"]}
    write_pipeline(world, decode=fields, target=target)
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "__deleted": "false"}]
    gone = [row | {"__deleted": said} for row, said in zip(rows, ["true", True], strict=True)]
    produce(world.kafka, world.topic, [json.dumps(row).encode() for row in [*rows, *gone]])
    answer("run", PIPELINE)
    assert _table(world) == [(1, "a"), (2, "b")]
    assert world.sql("SELECT reason FROM tidemark.dead_letters") == [("DELETION",)] * 2
    assert answer("verify", PIPELINE)["clean"]
