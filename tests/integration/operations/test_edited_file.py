"""B10: a pipeline file that somebody edits between a run's open and the start of a member."""

from typing import Any

import pytest
from tests.support.world import World, everything

from tidemark.errors import Fenced, Refused
from tidemark.model.state import KnownTarget, RegionState
from tidemark.protocol.changes import check_member

OTHER = {"schema": {"value": "string", "n": "int"}}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"decode": OTHER}, "decode.schema.n was None and is 'int'"),
        ({"decode": {"on_new_field": "refuse"}}, "decode.on_new_field was None and is 'refuse'"),
        ({"transform": "jobs.other:transform"}, "transform was 'none' and is 'jobs.other:transf"),
        ({"target": {"table": "public.others"}}, "target was 'public.records' and is 'public.oth"),
        ({"kafka": {"group": "another"}}, "and is 'another'"),
        ({"kafka": {"topics": ["another"]}}, "and is 'another'"),
        ({"output": {"topic": "another"}}, "output.topic was None and is 'another'"),
    ],
    ids=["schema", "decode", "transform", "table", "group", "topics", "output"],
)
def test_a_member_reads_nothing_by_an_edited_file(
    world: World, edit: dict[str, Any], said: str
) -> None:
    """B10: nor does it join; with the file as it was the run goes on."""
    world.produce(3)
    world.open()
    world.settings |= edit
    with pytest.raises(Refused) as refused:
        world.drain()
    assert said in str(refused.value)
    assert (world.executors, world.sql("SELECT member FROM tidemark.members")) == ([], [])
    world.settings.clear()
    world.drain()
    world.close()
    assert world.rows() == everything([3])


def test_what_changes_no_row_may_change(world: World) -> None:
    """B10: bounds and limits are the run's own, or for a person to set while it goes on."""
    world.produce(3)
    world.open()
    world.settings |= {"batch": {"max_records": 1}, "target": {"on_refused": "dead_letter"}}
    world.drain()
    assert world.close().rows == 3


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
    check_member(state, {}, {"b": "public.b", "long": "public.a"}, "g")
    with pytest.raises(Refused, match=r"target was 'b: public\.b, long: public\.a' and is"):
        check_member(state, {}, {"b": "public.a", "long": "public.b"}, "g")
