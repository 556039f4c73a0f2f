"""B12: Avro with a registry through Spark's tasks, the commands and the proof."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import PIPELINE, answer, settle_in, tidemark, write_pipeline
from tests.support.produce import produce
from tests.support.protobuf import as_set, field, file, message, serialized
from tests.support.registry import TestRegistry, basic, framed, registry
from tests.support.world import World
from tests.unit.test_avro import record, written

from tidemark.spark import executor as executors

pytestmark = pytest.mark.spark

FIRST = record(("id", "int"), ("name", "string"))
SECOND = record(
    ("name", ["null", "string"]),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("id", "long"),
)
SECRET = "s3cret-of-the-registry"


@pytest.fixture
def known() -> Iterator[TestRegistry]:
    with registry() as found:
        yield found


@pytest.fixture
def project(
    world: World,
    known: TestRegistry,
    tmp_path: Path,
    kept_spark: None,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    """A project that reads Avro, with the module's Spark and a registry behind a login."""
    shipped = executors.spark_executor
    settle_in(world, tmp_path, monkeypatch)
    monkeypatch.setattr(executors, "spark_executor", shipped)
    extra = {"max.retries": 0, "timeout": 5}
    connection = known.connection(login="ada", password=SECRET, extra=extra)
    monkeypatch.setenv(*connection.to_env())
    fields = {"id": "bigint", "name": "string", "at": "timestamp"}
    decode = {"format": "avro", "registry": "tidemark_registry", "schema": fields}
    write_pipeline(world, decode=decode)
    return world


def values(known: TestRegistry) -> list[bytes | None]:
    """Three good records of two schemas, and four bad ones."""
    first, second = known.register("t-value", FIRST), known.register("t-value", SECOND)
    other = known.register("u-value", record(("id", "string")))
    good = written(SECOND, {"name": None, "at": 1709208000123, "id": 1 << 40})
    known.authorization = basic("ada", SECRET)
    return [
        framed(first, written(FIRST, {"id": 1, "name": "one"})),
        framed(99, b"\2"),
        framed(second, good),
        framed(second, good + b"\0"),
        framed(other, b"\2a"),
        b'{"id": 4}',
        framed(known.guid(second), good),
    ]


def test_records_of_two_schemas_pass_through_every_command(
    project: World, known: TestRegistry
) -> None:
    """B12: checked, shown, run and proven; no secret is kept in the ledger, or printed."""
    produce(project.kafka, project.topic, values(known))
    found = {one["check"]: one for one in answer("check", PIPELINE)["checks"]}
    assert found["decode"]["fact"] == f"avro: 3 columns; schemas from {known.url}"
    shown = tidemark("preview", PIPELINE).stdout
    assert "7 records read: 3 rows, 4 dead letters" in shown
    told = tidemark("run", PIPELINE, "--verbose").output
    tables = project.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'tidemark'")
    kept = [project.sql(f"SELECT t::text FROM tidemark.{name} t") for (name,) in tables]
    assert SECRET not in told + repr(kept)
    rows = project.sql("SELECT id, name, at::text, kafka_offset FROM public.records ORDER BY 4")
    at = "2024-02-29 12:00:00.123+00"
    assert rows == [(1, "one", None, 0), (1 << 40, None, at, 2), (1 << 40, None, at, 6)]
    dead_letters = project.sql('SELECT "offset", reason FROM tidemark.dead_letters ORDER BY 1')
    assert dead_letters == [
        (1, "UNKNOWN_SCHEMA"),
        (3, "TRAILING_DATA"),
        (4, "OTHER_SCHEMA"),
        (5, "NOT_FRAMED"),
    ]
    assert answer("verify", PIPELINE)["clean"]
    known.schemas[99] = {"schema": json.dumps(record(("id", "long")))}  # registered late
    assert answer("verify", PIPELINE)["clean"]
    project.sql("UPDATE public.records SET name = 'two' WHERE kafka_offset = 2")
    assert "altered" in tidemark("verify", PIPELINE, exits=1).stdout


def test_messages_pass_through_tasks_and_the_proof(project: World, known: TestRegistry) -> None:
    """B12: of a registry, and keys of a file of descriptors."""
    order = file(message("Order", field("id", "int64"), field("name", "string", optional=True)))
    number = known.register("t-value", serialized(order), kind="PROTOBUF")
    known.authorization = basic("ada", SECRET)
    fields = {"id": "bigint", "name": "string"}
    Path(PIPELINE).with_name("orders.pb").write_bytes(as_set(order))
    key = {"format": "protobuf", "descriptor": "orders.pb", "message": "t.Order"}
    section = {"format": "protobuf", "registry": "tidemark_registry", "schema": fields}
    write_pipeline(project, decode=section | {"key": key | {"schema": {"id": "int"}}})
    data = (b"\x08\1\x12\1a", b"\x08\2", b"\x12\2a")
    produce(project.kafka, project.topic, [framed(number, one, b"\0") for one in data])
    answer("run", PIPELINE)
    rows = project.sql("SELECT id, name, key_id, kafka_offset FROM public.records ORDER BY 4")
    assert rows == [(1, "a", None, 0), (2, None, None, 1)]
    assert project.sql("SELECT reason FROM tidemark.dead_letters") == [("INVALID_PROTOBUF",)]
    assert answer("verify", PIPELINE)["clean"]


@pytest.mark.long
@pytest.mark.parametrize(
    "answered",
    [
        pytest.param((503, b"{}"), id="away"),
        pytest.param((401, b"{}"), id="login"),
        pytest.param((404, b"<html>"), id="address"),
    ],
)
def test_a_registry_that_gives_no_schema_fails_the_run_and_loses_nothing(
    project: World, known: TestRegistry, answered: tuple[int, bytes]
) -> None:
    """B12: no record becomes a dead letter; the next run goes on."""
    produce(project.kafka, project.topic, values(known))
    known.answers_instead = answered
    told = tidemark("run", PIPELINE, exits=1)
    assert "UNREACHABLE" in told.stderr
    assert SECRET not in told.output
    check = {one["check"]: one for one in answer("check", PIPELINE, exits=1)["checks"]}
    assert check["decode"]["state"] == "failed"
    assert project.sql("SELECT count(*) FROM tidemark.dead_letters") == [(0,)]
    known.answers_instead = None
    answer("run", PIPELINE)
    assert project.sql("SELECT count(*) FROM public.records") == [(3,)]
    assert answer("verify", PIPELINE)["clean"]
