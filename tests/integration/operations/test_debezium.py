"""B12, B20: a table follows change events, as docs/formats-debezium.md describes it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
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
    letters = world.sql('SELECT "offset", reason FROM tidemark.dead_letters ORDER BY 1')
    assert letters == [(5, "NULL_VALUE"), (8, "NOT_A_CHANGE")]
    assert answer("verify", PIPELINE)["clean"]
    world.sql("DELETE FROM public.records WHERE id = 0")
    assert "lost" in tidemark("verify", PIPELINE, exits=1).stdout


def _table(world: World) -> list[tuple[Any, ...]]:
    return world.sql("SELECT id, name FROM public.records ORDER BY 1")
