"""What belongs to one region alone: group, target, topics."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.produce import numbered, produce
from tests.support.world import World

from tidemark.errors import (
    Refused,
)


@pytest.mark.parametrize(
    ("shared", "owned"),
    [("group", "consumer group '[a-z0-9_]+':"), ("target", r"target public\.records:")],
)
def test_two_regions_share_neither_group_nor_target(world: World, shared: str, owned: str) -> None:
    """B4: the refusal names what is shared, and nothing else."""
    world.open()
    group = world.region if shared == "group" else f"{world.region}_2"
    table = "public.records" if shared == "target" else "public.others"
    settings = {"kafka": {"group": group}, "target": {"table": table}}
    other = replace(world, region=f"{world.region}_2", settings=settings)
    other.overrides = ("adopt_group",)
    with pytest.raises(Refused, match=f"region {world.region} has {owned}"):
        other.open()


def test_a_region_keeps_its_group(world: World) -> None:
    world.open()
    with pytest.raises(Refused, match="a region keeps it"):
        replace(world, settings={"kafka": {"group": "another"}}).open()


def test_a_region_keeps_its_target_once_it_has_a_checkpoint(world: World) -> None:
    """A mistyped name is corrected before; the rows of a region never lie in two tables."""
    world.open("mistyped")
    world.settings = {"target": {"table": "public.others"}}
    world.produce(2)
    world.run("corrected")
    assert world.sql("SELECT count(*) FROM public.others") == [(2,)]
    assert world.sql("SELECT table_name FROM tidemark.targets") == [("public.others",)]
    world.settings = {}
    with pytest.raises(Refused, match=r"has target public\.others, .* A region with a checkpoint"):
        world.open("another")


def test_one_table_is_one_regions_however_it_is_spelled(world: World) -> None:
    """A rewind of either would take the other's rows."""
    world.open()
    settings = {"target": {"table": 'PUBLIC."records"'}}
    other = replace(world, region=f"{world.region}_2", settings=settings)
    with pytest.raises(
        Refused, match=r"has target public\.records: a group and a table belong to one"
    ):
        other.open()


def test_two_topics_are_one_region(world: World, topic: Callable[..., str]) -> None:
    second = topic(partitions=1)
    world.settings = {"kafka": {"topics": [world.topic, second]}}
    world.produce(2)
    produce(world.kafka, second, numbered(3))
    world.run(max_records=4)
    counts = "SELECT kafka_topic, count(*) FROM public.records GROUP BY 1"
    assert dict(world.sql(counts)) == {world.topic: 2, second: 3}
