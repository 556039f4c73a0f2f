"""The three commands of docs/moving-in.md: a region goes on where another tool has stopped."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from tests.support.commands import answer, refusal, settle_in, tidemark
from tests.support.filled import copied
from tests.support.produce import produce
from tests.support.world import World

from tidemark_local.stack import LocalStack

REFUSED = 16
GROUP = "connect-orders"
NEEDS = (
    "ALTER TABLE public.orders ADD batch_seq bigint NOT NULL DEFAULT 0, ADD kafka_topic text,"
    " ADD kafka_partition int, ADD kafka_offset bigint"
)


@pytest.fixture
def warehouse(stack: LocalStack) -> Iterator[dict[str, Any]]:
    """A database without a ledger."""
    with copied(stack) as parameters:
        yield parameters


class Sink:
    """What a JDBC sink of Kafka Connect does: rows first, offsets later, coordinates in each."""

    def __init__(self, world: World) -> None:
        self.world = world
        settings = {"bootstrap.servers": world.kafka, "group.id": world.region + GROUP}
        own = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer(settings | own | {"enable.partition.eof": True})
        self.consumer.subscribe([world.topic])

    def load(self, *, commits: bool = True) -> None:
        """All records that are there become rows; a sink that is killed commits no offset."""
        ended: set[int] = set()
        with closing(psycopg2.connect(**self.world.warehouse)) as connection, connection:
            while len(ended) < 2:
                message = self.consumer.poll(60)
                assert message
                if message.error():
                    assert message.error().code() == KafkaError._PARTITION_EOF
                    ended.add(message.partition())
                    continue
                ended.discard(message.partition())
                place = message.topic(), message.partition(), message.offset()
                values = json.loads(message.value())["id"], *place
                row = "INSERT INTO public.orders VALUES (%s, %s, %s, %s)"
                connection.cursor().execute(row, values)
        if commits:
            self.consumer.commit(asynchronous=False)


@pytest.fixture
def sink(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    """A sink with a table of its own; in an empty project."""
    settle_in(world, tmp_path, monkeypatch)
    Path("dags/pipeline.yaml").unlink()
    world.sql(
        "CREATE TABLE public.orders (id bigint, __connect_topic text, __connect_partition int,"
        " __connect_offset bigint, loaded_at timestamptz DEFAULT now())"
    )
    found = Sink(world)
    yield found
    found.consumer.close()


def send(world: World, first: int, last: int) -> None:
    """Orders, by turns in two partitions."""
    for partition in range(2):
        numbers = range(first + partition, last, 2)
        values = [json.dumps({"id": number}).encode() for number in numbers]
        produce(world.kafka, world.topic, values, partition)


def taken_over(world: World) -> None:
    """The commands of docs/moving-in.md, in their order."""
    group = world.region + GROUP
    written = answer("init", "orders", "--topic", world.topic, "--from-group", group)
    file = "dags/orders.yaml"
    assert f"tidemark audit {file} --group {group}" in written["next"]
    assert f"tidemark import-offsets {file} --from-group {group} --apply" in written["next"]
    found = answer("audit", file, "--group", group, "--ignore", "loaded_at")
    assert (found["clean"], found["ahead"]) == (True, 0)
    given = answer("import-offsets", file, "--from-group", group, "--apply")
    assert given["source"] == f"group {group}"


def ids(world: World) -> list[int]:
    return [one for (one,) in world.sql("SELECT id FROM public.orders ORDER BY id")]


def test_a_region_goes_on_where_a_sink_of_connect_has_stopped(sink: Sink) -> None:
    """B28: without a gap and without a double."""
    world = sink.world
    send(world, 0, 20)
    sink.load()
    sink.consumer.close()
    taken_over(world)
    send(world, 20, 30)
    world.sql(NEEDS)
    tidemark("run", "dags/orders.yaml")
    assert ids(world) == [*range(30)]
    assert answer("verify", "dags/orders.yaml")["clean"]


def test_rows_behind_the_offsets_of_a_sink_that_was_killed_are_told(sink: Sink) -> None:
    """B28: docs/moving-in.md removes them by their coordinates."""
    world, group = sink.world, sink.world.region + GROUP
    send(world, 0, 10)
    sink.load()
    send(world, 10, 16)
    sink.load(commits=False)
    sink.consumer.close()
    tidemark("init", "orders", "--topic", world.topic, "--from-group", group)
    options = "audit", "dags/orders.yaml", "--group", group, "--ignore", "loaded_at"
    found = answer(*options)
    assert (found["clean"], found["ahead"]) == (True, 6)
    assert "6 rows of records that need not be there yet" in tidemark(*options).stdout
    world.sql("DELETE FROM public.orders WHERE __connect_offset >= 5")
    assert answer(*options)["ahead"] == 0
    tidemark("import-offsets", "dags/orders.yaml", "--from-group", group, "--apply")
    world.sql(NEEDS)
    tidemark("run", "dags/orders.yaml")
    assert ids(world) == [*range(16)]


def test_nothing_is_taken_over_from_a_tool_that_has_not_stopped(sink: Sink) -> None:
    """B28"""
    world, group = sink.world, sink.world.region + GROUP
    send(world, 0, 4)
    sink.load()
    tidemark("init", "orders", "--topic", world.topic, "--from-group", group)
    options = "import-offsets", "dags/orders.yaml", "--from-group", group
    assert refusal(*options, exits=REFUSED).case == "ImportIntoUsedGroup"
    sink.consumer.close()
    assert not answer(*options)["applied"]


def test_a_group_without_offsets_writes_no_pipeline(sink: Sink) -> None:
    send(sink.world, 0, 4)
    options = "init", "orders", "--topic", sink.world.topic, "--from-group", "nobody"
    assert refusal(*options, exits=REFUSED).case == "GroupWithoutOffsets"
    assert not Path("dags/orders.yaml").exists()
    taken = "import-offsets", "dags/orders.yaml", "offsets.json", "--from-group", "g"
    assert refusal(*taken, exits=2).case == "OptionsClash"


def test_a_partition_with_records_and_no_offset_is_refused_and_an_empty_one_is_not(
    sink: Sink,
) -> None:
    """B28: what its tool would have read there nobody knows."""
    world = sink.world
    produce(world.kafka, world.topic, [b'{"id": 1}'], 0)
    group = f"{world.region}-alone"
    with closing(Consumer({"bootstrap.servers": world.kafka, "group.id": group})) as consumer:
        place = world.partition(0)
        consumer.commit(offsets=[KafkaPartition(*place, 1)], asynchronous=False)
    tidemark("init", "orders", "--topic", world.topic, "--from-group", group)
    options = "import-offsets", "dags/orders.yaml", "--from-group", group
    assert answer(*options)["offsets"] == {str(place): 1, str(world.partition(1)): 0}
    produce(world.kafka, world.topic, [b'{"id": 2}'], 1)
    assert refusal(*options, exits=REFUSED).case == "ImportUnfit"
