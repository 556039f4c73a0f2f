"""B8, B12, B17: of an update that changes the key a transform is given the row before, too."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import PIPELINE, answer, settle_in, write_pipeline
from tests.support.produce import produce
from tests.support.world import World

from tidemark.spark import executor as executors

pytestmark = pytest.mark.spark

DECODE = {"envelope": "debezium", "schema": {"id": "bigint", "email": "string", "name": "string"}}


def row(email: str, name: str = "Ann") -> dict[str, Any]:
    return {"id": 1, "email": email, "name": name}


def update(before: Any, after: Any) -> bytes:
    return json.dumps({"op": "u", "before": before, "after": after}).encode()


@pytest.mark.long
@pytest.mark.parametrize("transform", ["mailed", "mailed_frame"])
def test_a_key_that_a_transform_makes_leaves_no_old_row(
    world: World,
    kept_spark: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transform: str,
) -> None:
    """B8, B12, B17: each record counts once, and what the transform made of both is proven."""
    shipped = executors.spark_executor
    settle_in(world, tmp_path, monkeypatch)
    monkeypatch.setattr(executors, "spark_executor", shipped)
    target = {"mode": "upsert", "key": ["mail"], "deleted": "deleted"}
    write_pipeline(
        world, decode=DECODE, target=target, transform=f"tests.support.transforms:{transform}"
    )
    produce(world.kafka, world.topic, [update(None, row("Old@x"))])
    answer("run", PIPELINE)
    changes = [
        update(row("Old@x"), row("OLD@x")),  # the same key to the transform
        update(row("OLD@x"), row("New@x")),
        update(row("New@x"), row("New@x", "Bob")),
    ]
    produce(world.kafka, world.topic, changes)
    answer("run", PIPELINE)
    assert world.sql("SELECT mail, name FROM public.records") == [("new@x", "Bob")]
    counts = world.sql(
        "SELECT rows_contributed, rows_moved, rows_deleted, rows_superseded"
        " FROM tidemark.batch_targets ORDER BY seq"
    )
    assert counts == [(1, 1, 0, 0), (6, 1, 1, 4)]
    assert answer("verify", PIPELINE)["clean"]
