"""Runs of one region that meet: who waits, who is fenced, and how a run ends that did not close."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from tests.support.world import World

from tidemark.admin.errors import ResetOfClosedRun, RunNotClosed
from tidemark.admin.run import end_run
from tidemark.errors import Fenced, Superseded
from tidemark.model.plan import Bounds
from tidemark.protocol.errors import OpenOvertaken
from tidemark.runs import open as open_module
from tidemark.runs.errors import AnotherRunAtWork
from tidemark.runs.open import Opened, open_run
from tidemark.settings.described import ledger_run_id


def ended(world: World, run_id: str) -> str | None:
    """The state in which the last task of the run finds it; it is red unless that is closed."""
    try:
        end_run(world.pipeline, world.connections, run_id=run_id)
    except RunNotClosed as told:
        return told.state
    return "closed"


def test_the_ledger_alone_says_how_a_run_has_ended(world: World) -> None:
    """G97, G183: whichever of its tasks was cleared, and whatever came since."""
    world.produce(2)
    world.run("done")
    assert (ended(world, "never"), ended(world, "done")) == (None, "closed")
    world.produce(3, start=2)
    world.open("dead")
    assert ended(world, "dead") == "open"
    assert ended(world, "dead") == "superseded"
    assert world.sql("SELECT epoch, consecutive_resets FROM tidemark.regions") == [(3, 0)]
    world.run("later")
    assert (ended(world, "done"), world.close("done").rows) == ("closed", 2)
    assert len(world.rows()) == 5


def test_a_reset_after_a_close_does_nothing(world: World) -> None:
    """G97: whatever became of the close's task."""
    world.produce(2)
    world.run("done")
    with pytest.raises(ResetOfClosedRun):
        world.reset("done")
    assert world.sql("SELECT epoch, consecutive_resets FROM tidemark.regions") == [(1, 0)]


def test_no_late_task_of_a_group_acts_on_the_epoch_of_another(world: World) -> None:
    """G198: in one DAG run, whose groups the ledger knows apart."""
    first, second = (ledger_run_id("host", "r", f"{group}.open") for group in ("a", "b"))
    world.produce(2)
    world.open(first)
    be_quiet(world, 11)
    assert polite(world, second).epoch == 2
    with pytest.raises(Fenced):
        world.close(first)
    with pytest.raises(Superseded):
        world.reset(first)
    assert ended(world, first) == "superseded"
    world.drain(second)
    assert world.close(second).rows == 2
    assert world.sql("SELECT epoch FROM tidemark.regions") == [(2,)]


def polite(world: World, run_id: str, overrides: Sequence[str] = ()) -> Opened:
    """The open of a DAG's run."""
    return open_run(
        world.pipeline,
        world.connections,
        run_id=run_id,
        bounds=Bounds(100),
        overrides=overrides,
        is_polite=True,
    )


def be_quiet(world: World, minutes: int) -> None:
    """Nobody was heard of for so long."""
    ago = f"clock_timestamp() - interval '{minutes} min'"
    world.sql(f"UPDATE tidemark.runs SET opened_at = {ago}")
    world.sql(f"UPDATE tidemark.members SET seen_at = {ago}")
    world.sql(f"UPDATE tidemark.batches SET planned_at = {ago}")


def test_a_polite_open_waits_for_a_run_whose_tasks_may_yet_come(world: World) -> None:
    """G187: between its open and its first member, and between two tries of a member."""
    world.produce(2)
    polite(world, "first")
    with pytest.raises(AnotherRunAtWork) as waits:
        polite(world, "second")
    assert (waits.value.run_id, waits.value.holders) == ("first", ())
    be_quiet(world, 11)
    world.ledger().register_member(world.region, 1, uuid4(), "drain[0] try 1")
    with pytest.raises(AnotherRunAtWork):
        polite(world, "second")
    assert polite(world, "first").epoch == 2  # its own task was cleared
    assert polite(world, "second", ["take_over"]).epoch == 3
    assert polite(world, "third", ["take_over"]).epoch == 4
    with pytest.raises(AnotherRunAtWork):  # cleared days later: that it may was used up
        polite(world, "second", ["take_over"])


@pytest.mark.long
def test_a_polite_open_fences_what_is_dead_and_waits_for_nobody_else(world: World) -> None:
    """G187."""
    world.produce(2)
    polite(world, "dead")
    be_quiet(world, 11)
    assert polite(world, "second").epoch == 2
    world.drain("second")
    world.close("second")
    assert polite(world, "third").epoch == 3
    world.reset("third")
    assert polite(world, "fourth").epoch == 5


def test_a_polite_open_waits_for_members_in_the_group_however_quiet(world: World) -> None:
    """G187: a batch may take hours, and tells nothing meanwhile."""
    world.produce(2)
    found: list[AnotherRunAtWork] = []

    def meet(*_: object) -> None:
        be_quiet(world, 60)
        with pytest.raises(AnotherRunAtWork) as waits:
            polite(world, "second")
        found.append(waits.value)

    polite(world, "first")
    world.before = meet
    world.drain("first")
    assert [(one.run_id, len(one.holders)) for one in found] == [("first", 1)]
    assert world.close("first").rows == 2


def test_of_two_polite_opens_at_once_the_later_commits_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G187: neither sees the other."""
    world.produce(2)
    facts = open_module.opening_facts

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(open_module, "opening_facts", facts)
        polite(world, "first")
        return facts(*given)

    monkeypatch.setattr(open_module, "opening_facts", overtaken)
    with pytest.raises(OpenOvertaken):
        polite(world, "second")
    assert world.sql("SELECT run_id, state FROM tidemark.runs") == [("first", "open")]
