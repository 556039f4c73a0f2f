"""A whole run by one command: it closes, resets where it fails, and meets others."""

import logging
import threading
from typing import Any

import pytest
from tests.support.documents import documented
from tests.support.executor import nothing
from tests.support.said import said
from tests.support.stranger import holder_beside
from tests.support.waiting import until
from tests.support.world import World, fail, staging

from tidemark.admin import run as run_module
from tidemark.admin.errors import GroupIsAtWork
from tidemark.admin.run import run
from tidemark.errors import JobFailed, MirrorFailed, Unreachable
from tidemark.kafka.description import client_id_of
from tidemark.model.plan import Bounds
from tidemark.protocol import close as close_module
from tidemark.protocol.errors import RunUnfinished

SECONDS = 120


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the run said of its own."""
    return [
        one
        for one in list(caplog.records)
        if (one.name, one.levelno) == (run_module.__name__, logging.WARNING)
    ]


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


def test_a_run_by_hand_that_close_refused_keeps_the_reason_of_close(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differ(*_: object) -> None:
        raise said(MirrorFailed, "Kafka differs, as the test wants it")

    world.produce(3)
    monkeypatch.setattr(close_module, "mirror", differ)
    with pytest.raises(RunUnfinished):
        run(world.pipeline, world.connections, bounds=Bounds(9), executor_of=world.executor_of)
    assert bad_runs(world) == [("failed", "Kafka differs, as the test wants it")]


def test_a_reset_that_fails_does_not_hide_what_ended_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Unreachable()

    world.produce(3)
    world.before = fail
    monkeypatch.setattr(run_module, "reset_region", refuse)
    with pytest.raises(JobFailed):
        run(world.pipeline, world.connections, bounds=Bounds(2), executor_of=world.executor_of)
    [warning] = warnings(caplog)
    assert warning.args is not None
    assert tuple(warning.args)[:2] == (world.region, "UNREACHABLE")
    world.before = nothing
    assert world.run("next").rows == 3


def test_a_run_by_hand_waits_for_a_killed_one_to_leave_the_group(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No retry, and no --take-over: Kafka misses the dead member by itself."""
    monkeypatch.setattr(run_module, "LEAVE_PAUSE", 0.2)
    monkeypatch.setattr(run_module, "EVICTION_SECONDS", SECONDS)
    world.produce(3)
    with holder_beside(world, client_id_of(world.region, 4711)) as leave:

        def leave_once_waited_for() -> None:
            until(lambda: warnings(caplog))
            leave.set()

        threading.Thread(target=leave_once_waited_for).start()
        closed = run(
            world.pipeline, world.connections, bounds=Bounds(9), executor_of=world.executor_of
        )
    assert closed.rows == 3
    assert leave.is_set()


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
