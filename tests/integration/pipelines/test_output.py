"""An output topic from end to end: rows as JSON, upserts, and what people are shown."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.support.produce import good, produce
from tests.support.sent import another_sends, sent_to
from tests.support.world import World

from tidemark.check._kafka import output_findings
from tidemark.model.output import Topics
from tidemark.protocol.errors import RunUnfinished
from tidemark.runs.region import region_of
from tidemark.staging.errors import RowsToSendDiffer
from tidemark.views.metrics import Measures, metrics_of
from tidemark.views.status import OutputStatus, RegionStatus, in_ledger, output_status

TYPES = {
    "flag": "boolean",
    "tiny": "smallint",
    "number": "int",
    "large": "bigint",
    "single": "float",
    "wide": "double",
    "text": "string",
    "raw": "binary",
    "amount": "decimal(30,10)",
    "day": "date",
    "moment": "timestamp",
    "list": "array<bigint>",
    "amounts": "array<decimal(20,5)>",
    "blobs": "array<binary>",
    "moments": "array<timestamp>",
    "nested": "struct<a: int, b: array<string>, c: decimal(20,10)>",
}
ODD: list[dict[str, Any]] = [
    {"flag": None},
    {
        "flag": True, "tiny": -32768, "number": 2**31 - 1, "large": -(2**63), "single": 1.1,
        "wide": 5e-324, "text": "\\ \" \u2028 \U0001f600\t%s\n", "raw": "/wD+", "day": "0001-01-01",
        "amount": "-12345678901234567890.0123456789", "moment": "9999-12-31T23:59:59.999999Z",
        "list": [1, None, -(2**63)], "amounts": ["0.00001", None], "blobs": ["AA==", None, ""],
        "moments": ["2024-02-29T12:00:00.000001+05:30", None],
        "nested": {"a": None, "b": ["x", None], "c": "1.1"},
    },
    {
        "flag": False, "single": 3.4028235e38, "wide": 0.1, "text": "", "amount": "0",
        "raw": "A" * 400, "day": "9999-12-31", "moment": "0001-01-01T00:00:00Z", "list": [],
        "amounts": [], "blobs": [], "moments": [], "nested": {"a": 1, "b": [], "c": None},
    },
]  # fmt: skip


@pytest.fixture
def sink(topic: Callable[..., str]) -> str:
    """The output topic."""
    return topic(partitions=1)


def test_what_is_sent_is_read_back_as_it_was(world: World, sink: str, group: str) -> None:
    """B9: topic, Tidemark, topic, Tidemark: each value of each type, and nulls."""
    world.settings |= {"decode": {"schema": TYPES}, "output": {"topic": sink, "key": ["number"]}}
    produce(world.kafka, world.topic, [json.dumps(one).encode() for one in ODD])
    world.run()
    copy = World(world.kafka, world.warehouse, sink, f"{group}_copy")
    copy.settings = {"decode": {"schema": TYPES}, "target": {"table": "public.copies"}}
    copy.run()
    names = ", ".join(f'"{name}"' for name in TYPES)
    rows, copies = (
        world.sql(f"SELECT {names} FROM public.{table} ORDER BY kafka_offset")
        for table in ("records", "copies")
    )
    assert len(rows) == len(ODD)
    assert rows == copies
    assert world.dead_letters() == []


@pytest.mark.long
def test_values_are_what_the_page_says(world: World, sink: str) -> None:
    """B9: numbers that floats would spoil are texts."""
    world.settings |= {"decode": {"schema": TYPES}, "output": {"topic": sink}}
    produce(world.kafka, world.topic, [json.dumps(ODD[1]).encode()])
    world.run()
    [record] = sent_to(world.kafka, sink)
    found = json.loads(record.value or b"")
    assert found["amount"] == "-12345678901234567890.0123456789"
    assert found["raw"] == "/wD+"
    assert found["moment"] == "9999-12-31T23:59:59.999999+00:00"
    assert found["amounts"] == ["0.00001", None]
    assert found["kafka_offset"] == 0
    assert "batch_seq" not in found


# --- upserts ---


@pytest.fixture
def shop(world: World, sink: str) -> World:
    """A region whose target holds a key's last word, and sends it."""
    world.settings |= {
        "decode": {"schema": {"word": "string"}, "metadata": ["key", "tombstone"]},
        "target": {"mode": "upsert", "key": ["kafka_key"], "deleted": "kafka_tombstone"},
        "output": {"topic": sink},
    }
    return world


def change(shop: World, changes: Iterable[tuple[str, str | None]]) -> None:
    """Each key has a new word, or none."""
    producer = Producer({"bootstrap.servers": shop.kafka, "linger.ms": 1})
    for key, word in changes:
        value = None if word is None else json.dumps({"word": word})
        producer.produce(shop.topic, value, key, partition=0)
    assert producer.flush(120) == 0


def told(shop: World) -> list[tuple[str, str | None]]:
    """What the output topic says, in order: keys are base64 in their objects."""
    names = {"YQ==": "a", "Yg==": "b", "Yw==": "c"}
    return [
        (
            names[json.loads(one.key or b"")["kafka_key"]],
            None if one.value is None else json.loads(one.value)["word"],
        )
        for one in sent_to(shop.kafka, shop.settings["output"]["topic"])
    ]


def kept(shop: World) -> int:
    """Records in the outbox."""
    return int(shop.sql("SELECT count(*) FROM tidemark.outbox")[0][0])


def test_an_upsert_sends_each_changed_key_once_a_batch_and_tombstones(shop: World) -> None:
    """B9, B8: the outbox holds it until it is read back as sent."""
    change(shop, [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", None), ("a", "5")])
    shop.run(max_records=3)
    assert told(shop) == [("b", "2"), ("a", "3"), ("c", "4"), ("b", None), ("a", "5")]
    assert kept(shop) == 0


def test_an_upsert_sends_what_each_batch_left_however_late(shop: World) -> None:
    """B9: later batches have changed the rows since."""
    change(shop, [("a", "1"), ("a", "2"), ("a", None), ("a", "3")])
    shop.open(max_records=1)
    with another_sends(shop):
        shop.drain()
    assert (told(shop), kept(shop)) == ([], 4)
    shop.close()
    assert told(shop) == [("a", "1"), ("a", "2"), ("a", None), ("a", "3")]
    assert kept(shop) == 0


def test_an_outbox_that_somebody_emptied_stops_it(shop: World) -> None:
    change(shop, [("a", "1")])
    shop.run("first")
    change(shop, [("a", "2"), ("b", "2")])
    shop.sql("CREATE RULE nothing AS ON INSERT TO tidemark.outbox DO INSTEAD NOTHING")
    shop.open("second")
    with pytest.raises(RowsToSendDiffer) as other:
        shop.drain("second")
    assert (other.value.seq, other.value.published, other.value.found) == (2, 2, 0)
    assert told(shop) == [("a", "1")]


@pytest.mark.long
def test_the_outbox_of_another_target_is_not_sent(shop: World) -> None:
    """B9: the file may name another one of its targets since."""
    change(shop, [("a", "1")])
    shop.open()
    with another_sends(shop):
        shop.drain()
    shop.sql("UPDATE tidemark.outbox SET target = 'other'")
    with pytest.raises(RunUnfinished) as unsent:
        shop.close()
    missing = RowsToSendDiffer(
        region=shop.region, seq=1, target='"public"."records"', published=1, found=0
    )
    assert unsent.value.reasons == (str(missing),)
    assert told(shop) == []


# --- what people are shown ---


@pytest.mark.long
def test_status_and_metrics_show_what_is_not_sent(world: World, sink: str) -> None:
    """B9, B13: batches and records."""
    world.settings["output"] = {"topic": sink}
    produce(world.kafka, world.topic, [good("a"), good("b"), good("c")])
    world.open(max_records=2)
    with another_sends(world):
        world.drain()
    assert status(world) == OutputStatus(Topics(sink), 0, 2, 3)
    shown = Measures(RegionStatus(world.region, "open", output=status(world)))
    samples = {one.name: one.value for family in metrics_of([shown]) for one in family.samples}
    assert samples["tidemark_output_unsent_batches"] == 2
    assert samples["tidemark_output_unsent_records"] == 3
    world.close()
    assert status(world) == OutputStatus(Topics(sink), 2, 0, 0)


def status(world: World) -> OutputStatus | None:
    with region_of(world.pipeline, world.connections) as region:
        return output_status(region, in_ledger(region).partitions)


@pytest.mark.long
def test_check_looks_at_the_topic(world: World, sink: str) -> None:
    """B9, B16: it is there, and may be written."""
    connection_of = world.connections.__getitem__
    world.settings["output"] = {"topic": sink}
    found = list(output_findings(world.pipeline, connection_of))
    assert [one.state for one in found] == ["ok", "ok"]
    assert "1 partition; may write, read" in found[0].fact
    world.settings["output"] = {"topic": "nowhere"}
    [topic, _] = output_findings(world.pipeline, connection_of)
    assert (topic.state, topic.fact) == ("failed", "does not exist")


def test_check_compares_what_the_topics_take(world: World, topic: Callable[..., str]) -> None:
    """G99: what Kafka took where it is read, as rows and as dead letters, which are larger."""
    connection_of = world.connections.__getitem__
    for limit, states in [
        ({"max.message.bytes": "1000"}, ["warned", "warned"]),
        ({}, ["ok", "warned"]),
        ({"max.message.bytes": str(2 << 20)}, ["ok", "ok"]),
    ]:
        sinks = {"output": {"topic": topic(**limit)}, "dead_letters": {"topic": topic(**limit)}}
        world.settings |= sinks
        found = output_findings(world.pipeline, connection_of)
        assert [one.state for one in found][:2] == states


def test_what_kafka_took_is_sent(world: World, topic: Callable[..., str]) -> None:
    """G99: a row and a dead letter as large as Java's producers and brokers let through."""
    rows, dead_letters = (
        topic(partitions=1, **{"max.message.bytes": str(2 << 20)}) for _ in range(2)
    )
    world.settings |= {
        "output": {"topic": rows},
        "dead_letters": {"topic": dead_letters, "max_ratio": 1.0, "max_bytes": "whole"},
    }
    most = (1 << 20) - 200
    row, bad = json.dumps({"value": "x" * (most - 13)}).encode(), b"x" * most
    producer = Producer({"bootstrap.servers": world.kafka, "message.max.bytes": 2 << 20})
    for value in (row, bad):
        producer.produce(world.topic, value, partition=0)
    assert producer.flush(120) == 0
    world.run()
    [sent], [dead_letter] = sent_to(world.kafka, rows), sent_to(world.kafka, dead_letters)
    assert json.loads(sent.value or b"")["value"] == "x" * (most - 13)
    assert dead_letter.value == bad
