"""B12, B20: a schema to paste, from the first records that Kafka holds."""

from pathlib import Path

import pytest
import yaml
from tests.support.commands import (
    PIPELINE,
    answer,
    refusal,
    settle_in,
    tidemark,
    write_pipeline,
)
from tests.support.produce import produce
from tests.support.registry import framed, registry
from tests.support.world import World
from tests.unit.test_avro import record, written


@pytest.fixture
def project(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    settle_in(world, tmp_path, monkeypatch)
    return world


def test_what_preview_prints_is_a_schema_that_a_run_takes(project: World) -> None:
    """B12, B20: check prints it too, and nothing else takes the file before."""
    write_pipeline(project, decode={"schema": "infer"})
    assert refusal("preview", PIPELINE, exits=2).case == "NoSchemaInferred"
    produce(project.kafka, project.topic, [b'{"value": "a", "n": 1}', b"no JSON", b'{"n": 2.5}'])
    told = tidemark("preview", PIPELINE).stdout
    assert "from 3 records" in told
    pasted = yaml.safe_load(told)["decode"]
    assert pasted == {"schema": {"value": "string", "n": "double"}}
    assert answer("preview", PIPELINE)["inferred"]["decode"] == pasted["schema"]
    checks = {one["check"]: one for one in answer("check", PIPELINE)["checks"]}
    assert checks["decode"]["state"] == "warned"
    assert "    n: double" in checks["decode"]["fact"]
    assert refusal("run", PIPELINE, exits=2).case == "FieldsNotInferred"
    write_pipeline(project, decode=pasted)
    answer("run", PIPELINE)
    rows = project.sql("SELECT value, n FROM public.records ORDER BY kafka_offset")
    assert rows == [("a", 1.0), (None, 2.5)]


@pytest.mark.long
def test_avro_is_inferred_from_the_last_record_that_was_read(
    project: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: a GUID in a header is read as one in front."""
    with registry() as known:
        monkeypatch.setenv(*known.connection(extra={"max.retries": 0, "timeout": 5}).to_env())
        decode = {"format": "avro", "registry": "tidemark_registry", "schema": "infer"}
        write_pipeline(project, decode=decode | {"framing": "headers"})
        first, second = record(("id", "int")), record(("id", "long"), ("s", ["null", "string"]))
        for schema, datum in ((first, {"id": 1}), (second, {"id": 2, "s": None})):
            number = known.register("t", schema)
            produce(project.kafka, project.topic, [framed(number, written(schema, datum))])
        found = answer("preview", PIPELINE)["inferred"]["decode"]
        assert found == {"id": "bigint", "s": "string"}
        produce(project.kafka, project.topic, [framed(99, b"")])
        assert refusal("preview", PIPELINE, exits=2).case == "NoSchemaInferred"
