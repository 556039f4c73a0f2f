"""What belongs to one region alone: group, target, topics."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.world import World

from tidemark.admin.drop import drop_region
from tidemark.errors import TargetRefused, Unreachable
from tidemark.kafka._mirror_writer import MirrorWriter
from tidemark.kafka.group import Group
from tidemark.ledger.actions import Order
from tidemark.ledger.errors import RegionHasOwners, RegionKeepsGroup, RegionNotReadBack
from tidemark.model.state import Owner

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


@pytest.mark.long
def test_a_region_keeps_its_group(world: World) -> None:
    world.open()
    with pytest.raises(RegionKeepsGroup) as refused:
        replace(world, settings={"kafka": {"group": "another"}}).open()
    assert (refused.value.group, refused.value.asked) == (world.region, "another")


def test_one_table_is_one_regions_however_it_is_spelled(world: World) -> None:
    """A rewind of either would take the other's rows."""
    world.open()
    with pytest.raises(RegionHasOwners) as refused:
        beside(world, target={"table": 'PUBLIC."records"'}).open()
    assert refused.value.owners == (Owner(world.region, None, (ONE_TABLE,)),)


@contextmanager
def kafka_away(monkeypatch: pytest.MonkeyPatch, after: int = 0) -> Iterator[None]:
    """Nobody gets a writer any more, once some have had one."""
    left, writer = [None] * after, Group.writer

    def gone(group: Group) -> AbstractContextManager[MirrorWriter]:
        if not left:
            raise BrokersUnreachable
        left.pop()
        return writer(group)

    with monkeypatch.context() as patch:
        patch.setattr(Group, "writer", gone)
        yield


class BrokersUnreachable(Unreachable):
    """As when all brokers are away."""


def refuse_to_drop(world: World) -> None:
    before = world.sql("SELECT * FROM tidemark.regions")
    warehouse = world.connections["tidemark_warehouse"]
    for order in (None, Order("test", "a test")):
        with pytest.raises(RegionNotReadBack):
            drop_region(warehouse, world.region, order)
    assert world.sql("SELECT * FROM tidemark.regions") == before
    world.reset()
    assert world.kafka_offsets() == world.ledger_offsets()
    drop_region(warehouse, world.region, Order("test", "a test"))


def test_a_region_whose_run_failed_to_mirror_is_not_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S18, G89: who starts at the group's offsets would read what was published once more."""
    world.settings["no_progress_seconds"] = 1
    world.produce(3)
    world.run("first")
    world.produce(4, start=3)
    world.open("second")
    with kafka_away(monkeypatch):
        world.drain("second")
        with pytest.raises(BrokersUnreachable):
            world.close("second")
    assert world.kafka_offsets() != world.ledger_offsets()
    refuse_to_drop(world)


def test_a_region_whose_rewind_was_refused_half_way_is_not_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S18, G89: Kafka went down first, and could not be lifted again."""
    world.produce(4)
    world.run("first", max_records=2)
    world.sql("ALTER TABLE public.records ADD UNIQUE (kafka_partition, kafka_offset)")
    world.sql(
        "CREATE TABLE public.refers (p int, o bigint, FOREIGN KEY (p, o)"
        " REFERENCES public.records (kafka_partition, kafka_offset))"
    )
    world.sql("INSERT INTO public.refers VALUES (0, 3)")
    with kafka_away(monkeypatch, after=1), pytest.raises(TargetRefused):
        world.reset(to=1)
    assert world.kafka_offsets() != world.ledger_offsets()
    refuse_to_drop(world)
