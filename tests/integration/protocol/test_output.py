"""Published rows in an output topic, once each, whatever interleaves: real Kafka, real Postgres."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from tests.support.world import World


@pytest.fixture
def sink(topic: Callable[..., str]) -> str:
    """The output topic."""
    return topic(partitions=1)


@pytest.fixture
def region(world: World, sink: str) -> World:
    """A region that sends its rows."""
    world.settings |= {"output": {"topic": sink, "key": ["value"]}}
    return world


def test_each_row_is_sent_once(region: World, sink: str) -> None:
    """B9: with the batch and the epoch in the headers, in the order of the batches."""
    region.produce(5)
    region.run("first", max_records=2)
    region.produce(2, start=5)
    region.run("second")
    from tests.support.sent import sent_to
    records = sent_to(region.kafka, sink)
    for r in records: print(r)
    assert [json.loads(one.value)["value"] for one in records] == [f"value {n}" for n in range(7)]
    assert 0
