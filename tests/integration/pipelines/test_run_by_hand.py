"""A whole run by one command: it closes, resets where it fails, and meets others."""

import threading
from typing import Any

import pytest
from tests.support.documents import documented
from tests.support.world import World, fail, staging

from tidemark.admin import run as run_module
from tidemark.admin.errors import GroupIsAtWork
from tidemark.admin.run import run
from tidemark.errors import JobFailed
from tidemark.model.plan import Bounds

SECONDS = 120


def test_a_run_by_hand_drains_and_closes(world: World) -> None:
    world.produce(3)
    closed = run(world.pipeline, world.connections, bounds=Bounds(2), executor_of=world.executor_of)
    assert (closed.rows, closed.batches) == (3, 2)


def bad_runs(world: World) -> list[tuple[Any, ...]]:
    """What the document's statement says of runs that ended badly."""
    found = world.sql(documented("state = 'failed' AND opened_at"))
    return [(row[3], row[4]) for row in found]


@pytest.mark.long
def test_a_run_by_hand_that_fails_is_reset_and_listed_with_its_reason(world: World) -> None:
    world.produce(3)
    world.before = fail
    with pytest.raises(JobFailed):
        run(world.pipeline, world.connections, bounds=Bounds(2), executor_of=world.executor_of)
    assert world.sql("SELECT state FROM tidemark.resets") == [("finished",)]
    assert staging(world) == []
    [(state, reason)] = bad_runs(world)
    assert state == "failed"
    assert reason.startswith("ended with JOB_FAILED; batch 1 is planned and not published; ")
    assert f"{world.partition(0)} is at 0, its target offset is 3" in reason


@pytest.mark.long
def test_a_run_by_hand_refuses_beside_live_members(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By courtesy; correctness rests on the epoch."""
    world.produce(3)
    monkeypatch.setattr(
        run_module, "EVICTION_SECONDS", -world.pipeline.kafka.session_seconds
    )  # it is not waited for
    monkeypatch.setattr(run_module, "LEAVE_PAUSE", 0.2)
    world.open("airflow")
    inside, leave = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        inside.set()
        assert leave.wait(SECONDS)

    world.before = hold
    worker = threading.Thread(target=world.drain, args=("airflow",))
    worker.start()
    try:
        assert inside.wait(SECONDS)
        with pytest.raises(GroupIsAtWork) as refused:
            run(world.pipeline, world.connections, bounds=Bounds(9), executor_of=world.executor_of)
        assert refused.value.group == world.region
        assert len(refused.value.holders) == 1
    finally:
        leave.set()
        worker.join()
    assert world.close("airflow").rows == 3
