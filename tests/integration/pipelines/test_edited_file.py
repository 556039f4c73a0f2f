"""B10: a pipeline file that somebody edits between a run's open and the start of a member."""

from typing import Any

import pytest
from tests.support.world import World, everything

from tidemark.errors import Fenced
from tidemark.model.state import KnownTarget, RegionState
from tidemark.protocol.changes import refuse_other_settings
from tidemark.protocol.errors import ChangedSinceOpen, SettingDiffers

OTHER = {"schema": {"value": "string", "n": "int"}}
EDITS: list[tuple[dict[str, Any], tuple[str, object, object]]] = [
    ({"decode": OTHER}, ("decode.schema.n", None, "int")),
    ({"decode": {"on_new_field": "refuse"}}, ("decode.on_new_field", None, "refuse")),
    ({"transform": "jobs.other:transform"}, ("transform", "none", "jobs.other:transform")),
    ({"target": {"table": "public.others"}}, ("target", "public.records", "public.others")),
    ({"kafka": {"group": "another"}}, ("kafka.group", "GROUP", "another")),
    ({"kafka": {"topics": ["another"]}}, ("kafka.topics", "TOPIC", "another")),
    ({"output": {"topic": "another"}}, ("output.topic", None, "another")),
]
"""What is edited; and the setting that differs, with its value of before and of now."""


def test_a_member_reads_nothing_by_an_edited_file(world: World) -> None:
    """B10: nor does it join; with the file as it was the run goes on."""
    world.produce(3)
    world.open()
    own = {"GROUP": world.region, "TOPIC": world.topic}
    for edit, (name, was, now) in EDITS:
        world.settings |= edit
        with pytest.raises(ChangedSinceOpen) as refused:
            world.drain()
        differs = SettingDiffers(name, own.get(str(was), was), now)
        assert differs in refused.value.changes
        world.settings.clear()
    assert (world.executors, world.sql("SELECT member FROM tidemark.members")) == ([], [])
    world.drain()
    world.close()
    assert world.rows() == everything([3])


def test_a_member_of_a_run_that_has_passed_is_fenced_whatever_its_file_says(world: World) -> None:
    """B10"""
    world.produce(3)
    world.open()
    world.reset()
    world.settings |= {"decode": OTHER}
    with pytest.raises(Fenced):
        world.drain()


def test_the_order_of_several_targets_is_no_change() -> None:
    """B10: the ledger has one of its own."""
    known = {"long": KnownTarget("public.a"), "b": KnownTarget("public.b")}
    state = RegionState("r", 1, 0, 1, "cluster", "g", targets=known)
    refuse_other_settings(state, {}, {"b": "public.b", "long": "public.a"}, "g")
    with pytest.raises(ChangedSinceOpen) as refused:
        refuse_other_settings(state, {}, {"b": "public.a", "long": "public.b"}, "g")
    was, now = "b: public.b, long: public.a", "b: public.a, long: public.b"
    assert refused.value.changes == (SettingDiffers("target", was, now),)
