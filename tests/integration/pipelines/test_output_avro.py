"""An output topic in Avro, from end to end: a registry, rows, and Tidemark as its reader."""

import json
from collections.abc import Callable, Iterator

import pytest
from tests.integration.pipelines.test_output import ODD, TYPES
from tests.support.produce import good, produce
from tests.support.registry import TestRegistry, registry
from tests.support.sent import sent_to
from tests.support.world import World

from tidemark.decode.errors import RegistryFailed, RowSchemaRejected
from tidemark.encode.errors import ValueNotOfAvro

NAME = "tidemark_registry"
QUICK = {"max.retries": 0, "timeout": 5}


@pytest.fixture
def known() -> Iterator[TestRegistry]:
    with registry() as found:
        yield found


@pytest.fixture
def sink(topic: Callable[..., str]) -> str:
    return topic(partitions=1)


@pytest.fixture
def region(world: World, known: TestRegistry, sink: str) -> World:
    """A region that sends its rows in Avro."""
    world.registry = known.connection(extra=QUICK)
    world.settings["output"] = {"topic": sink, "format": "avro", "registry": NAME}
    return world


def test_what_is_sent_is_read_back_as_it_was(
    region: World, known: TestRegistry, sink: str, group: str
) -> None:
    """B9, B12: topic, Tidemark, Avro, Tidemark: each value of each type, and nulls."""
    region.settings["decode"] = {"schema": TYPES}
    produce(region.kafka, region.topic, [json.dumps(one).encode() for one in ODD])
    region.run()
    copy = World(region.kafka, region.warehouse, sink, f"{group}_copy", registry=region.registry)
    types = {**TYPES, "nested": "string"}
    copy.settings = {
        "decode": {"format": "avro", "registry": NAME, "schema": types},
        "target": {"table": "public.copies"},
    }
    copy.run()
    names = ", ".join(f'"{name}"' for name in TYPES if name != "nested")
    rows, copies = (
        region.sql(
            f"SELECT {names}, nested::jsonb FROM public.{table} ORDER BY {table}.kafka_offset"
        )
        for table in ("records", "copies")
    )
    assert len(rows) == len(ODD)
    assert rows == copies
    assert list(known.subjects) == [f"{sink}-value"]


@pytest.mark.long
def test_keys_stay_json_and_tombstones_have_no_value(region: World, sink: str) -> None:
    """B9, B8: a new schema changes no key, so compaction finds those before it."""
    region.settings |= {
        "decode": {"schema": {"id": "bigint", "gone": "boolean"}},
        "target": {"mode": "upsert", "key": ["id"], "deleted": "gone"},
    }
    changes = [{"id": 1}, {"id": 2}, {"id": 1, "gone": True}]
    produce(region.kafka, region.topic, [json.dumps(one).encode() for one in changes])
    region.run(max_records=2)
    found = sent_to(region.kafka, sink)
    assert [one.key for one in found] == [b'{"id":1}', b'{"id":2}', b'{"id":1}']
    assert [one.value is None for one in found] == [False, False, True]


def test_a_column_that_comes_later_makes_a_new_schema(
    region: World, known: TestRegistry, sink: str
) -> None:
    region.produce(1)
    region.run("first")
    region.sql("ALTER TABLE public.records ADD COLUMN note text DEFAULT 'x'")
    region.produce(1, start=1)
    region.run("second")
    assert len(known.subjects[f"{sink}-value"]) == 2
    one, other = (
        int.from_bytes((found.value or b"")[1:5]) for found in sent_to(region.kafka, sink)
    )
    assert (one, other) == (1, 2)


def test_a_schema_that_the_registry_does_not_take_stops_the_open(
    region: World, known: TestRegistry, sink: str
) -> None:
    """B9, B16: in its own words, before anything is written."""
    region.produce(1)
    region.run("first")
    region.sql("ALTER TABLE public.records ADD COLUMN note text")
    words = {"error_code": 409, "message": "Schema being registered is incompatible with v1"}
    known.answers_instead = 409, json.dumps(words).encode()
    with pytest.raises(RowSchemaRejected) as refused:
        region.open("second")
    assert refused.value.subject == f"{sink}-value"
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(1,)]
    known.answers_instead = 500, b"{}"
    with pytest.raises(RegistryFailed):
        region.open("third")
    known.answers_instead = 200, b'{"id": 4294967296}'
    with pytest.raises(RegistryFailed) as odd:
        region.open("odd")
    assert odd.value.cause == "with the id 4294967296"


def test_a_value_that_avro_can_not_hold_is_named(region: World, sink: str) -> None:
    """B9: nothing of its batch is sent."""
    region.sql(
        "CREATE TABLE public.records (value text, day date DEFAULT 'infinity', kafka_topic text,"
        " kafka_partition int, kafka_offset bigint, kafka_timestamp timestamptz,"
        " batch_seq bigint NOT NULL)"
    )
    produce(region.kafka, region.topic, [good("a")])
    region.open()
    with pytest.raises(ValueNotOfAvro) as unfit:
        region.drain()
    assert (unfit.value.column, unfit.value.value) == ("day", "infinity")
    assert sent_to(region.kafka, sink) == []
