"""B20: a field that a person declares becomes a column, with the consent of the file."""

from pathlib import Path

import pytest
from tests.support.commands import (
    PIPELINE,
    answer,
    refusal,
    settle_in,
    write_pipeline,
)
from tests.support.produce import produce
from tests.support.world import World


def test_a_new_field_is_a_new_column_by_consent(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B20: refused without it; in the ledger with it; old rows stay as they are."""
    settle_in(world, tmp_path, monkeypatch)
    write_pipeline(world)
    produce(world.kafka, world.topic, [b'{"value": "a"}'])
    answer("run", PIPELINE)
    fields = {"value": "string", "n": "int"}
    write_pipeline(world, decode={"schema": fields})
    produce(world.kafka, world.topic, [b'{"value": "b", "n": 1}', b'{"value": "c", "new": 1}'])
    changed = refusal("run", PIPELINE, exits=16)
    assert changed.case == "ChangedSinceCheckpoint"
    assert changed.fields["changes"] == ["decode.schema.n was None and is 'int'"]
    assert refusal("run", PIPELINE, "--accept-changes", exits=14).case == "TargetDoesNotFit"
    section = {"schema": fields, "on_new_field": "refuse"}
    write_pipeline(world, decode=section, target={"on_new_column": "add"})
    checks = {one["check"]: one for one in answer("check", PIPELINE, exits=1)["checks"]}
    assert "would be given n" in checks["output"]["fact"]
    answer("run", PIPELINE, "--accept-changes")
    assert world.sql("SELECT value, n FROM public.records ORDER BY kafka_offset") == [
        ("a", None),
        ("b", 1),
    ]
    assert world.sql("SELECT reason FROM tidemark.dead_letters") == [("NEW_FIELD",)]
    added = world.sql("SELECT details FROM tidemark.actions WHERE kind = 'add_columns'")
    assert added == [({'"public"."records"': {"n": "integer"}},)]
    assert answer("verify", PIPELINE)["clean"]
