"""What belongs to one region alone: group, target, topics."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.produce import numbered, produce
from tests.support.world import World

from tidemark.ledger.errors import RegionHasOwners, RegionKeepsGroup
from tidemark.ledger.owner import Owner
from tidemark.model.batch import ONLY
from tidemark.protocol.errors import TargetsChanged

ONE_TABLE = "public.records"


def beside(world: World, **settings: Any) -> World:
    """Another region."""
    return replace(world, region=f"{world.region}_2", settings=settings, overrides=("adopt_group",))


def test_two_regions_share_neither_group_nor_target(world: World) -> None:
    """B4: the refusal names what is shared, and nothing else."""
    world.open()
    for settings, owner in (
        (
            {"kafka": {"group": world.region}, "target": {"table": "public.others"}},
            Owner(world.region, world.region, ()),
        ),
        ({"target": {"table": ONE_TABLE}}, Owner(world.region, None, (ONE_TABLE,))),
    ):
        with pytest.raises(RegionHasOwners) as refused:
            beside(world, **settings).open()
        assert refused.value.owners == (owner,)


def test_a_region_keeps_its_group(world: World) -> None:
    world.open()
    with pytest.raises(RegionKeepsGroup) as refused:
        replace(world, settings={"kafka": {"group": "another"}}).open()
    assert (refused.value.group, refused.value.asked) == (world.region, "another")


def test_a_region_keeps_its_target_once_it_has_a_checkpoint(world: World) -> None:
    """A mistyped name is corrected before; the rows of a region never lie in two tables."""
    world.open("mistyped")
    world.settings = {"target": {"table": "public.others"}}
    world.produce(2)
    world.run("corrected")
    assert world.sql("SELECT count(*) FROM public.others") == [(2,)]
    assert world.sql("SELECT table_name FROM tidemark.targets") == [("public.others",)]
    world.settings = {}
    with pytest.raises(TargetsChanged) as refused:
        world.open("another")
    assert refused.value.known == {ONLY: "public.others"}


def test_one_table_is_one_regions_however_it_is_spelled(world: World) -> None:
    """A rewind of either would take the other's rows."""
    world.open()
    with pytest.raises(RegionHasOwners) as refused:
        beside(world, target={"table": 'PUBLIC."records"'}).open()
    assert refused.value.owners == (Owner(world.region, None, (ONE_TABLE,)),)


def test_two_topics_are_one_region(world: World, topic: Callable[..., str]) -> None:
    second = topic(partitions=1)
    world.settings = {"kafka": {"topics": [world.topic, second]}}
    world.produce(2)
    produce(world.kafka, second, numbered(3))
    world.run(max_records=4)
    counts = "SELECT kafka_topic, count(*) FROM public.records GROUP BY 1"
    assert dict(world.sql(counts)) == {world.topic: 2, second: 3}
