"""How long members wait for partitions that somebody else holds, by a clock that the test moves."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from tests.support.clock import Clock
from tests.support.stranger import holder_beside
from tests.support.waiting import until
from tests.support.world import World

from tidemark.kafka.description import client_id_of
from tidemark.model.offsets import Span
from tidemark.runs import _drain as drain_module
from tidemark.runs._stall import EXCUSED, FOREIGN_SECONDS, LOCKED_SECONDS
from tidemark.runs.errors import RunStalled

SECONDS = 120
PATIENCE = 600
"""no_progress_seconds: nobody but a test's own clock comes there."""

LATE = FOREIGN_SECONDS + 5
"""Too long a wait for a stranger, and not for a member."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members look around more often than in production."""
    monkeypatch.setattr(drain_module, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(drain_module, "LONGEST_WAIT_SECONDS", 0.05)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lone(
    kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str, clock: Clock
) -> World:
    """An open run over one partition: who holds that leaves nothing to others."""
    return opened(World(kafka, warehouse, topic(partitions=1), group, clock=clock), 1)


@pytest.fixture
def shared(world: World, clock: Clock) -> World:
    """An open run over two partitions: a batch is planned whoever holds one of them."""
    world.clock = clock
    return opened(world, 2)


def opened(world: World, partitions: int) -> World:
    world.settings = {"no_progress_seconds": PATIENCE}
    for partition in range(partitions):
        world.produce(3, partition)
    world.open()
    return world


def is_settled(world: World) -> bool:
    """The one member has joined beside somebody, has done its part, and waits."""
    group, parts = world.group.describe(), len(world.ledger_offsets())
    claimed = world.sql("SELECT count(*) FROM tidemark.spans WHERE contribution IS NOT NULL")
    shown = world.sql("SELECT state FROM tidemark.members")
    is_shared = (group.state, len(group.holders)) == ("stable", 2)
    return is_shared and (claimed, shown) == ([(parts - 1,)], [("waiting",)])


def test_a_stranger_that_leaves_nobody_a_partition_to_plan_for_fails_the_run(
    lone: World, clock: Clock
) -> None:
    """S4, H12: nobody plans, and the wait is bounded all the same."""
    with holder_beside(lone):
        member = lone.member()
        until(lambda: is_settled(lone))
        clock.now += LATE
        with pytest.raises(RunStalled) as stalled:
            member.result(SECONDS)
    found = stalled.value
    assert (found.seq, found.spans) == (None, (Span(lone.topic, 0, 0, 3),))
    assert [one.client_id for one in found.holders] == ["console"]
    assert found.seconds == LATE
    assert lone.sql("SELECT count(*) FROM tidemark.batches") == [(0,)]


def test_a_stranger_that_holds_a_part_of_a_batch_is_named(shared: World, clock: Clock) -> None:
    """S4, H12: though the rest of the batch was drained."""
    with holder_beside(shared):
        member = shared.member()
        until(lambda: is_settled(shared))
        clock.now += LATE
        with pytest.raises(RunStalled) as stalled:
            member.result(SECONDS)
    assert stalled.value.seq == 1
    assert [(span.start, span.end) for span in stalled.value.spans] == [(0, 3)]
    assert [one.client_id for one in stalled.value.holders] == ["console"]
    assert shared.rows() == []
    shared.drain()
    assert shared.close().rows == 6


@pytest.fixture(params=["lone", "shared"])
def region(request: pytest.FixtureRequest) -> World:
    """Either."""
    world: World = request.getfixturevalue(request.param)
    return world


def test_a_member_of_an_earlier_run_is_waited_for_like_one_of_this(
    region: World, clock: Clock
) -> None:
    """One that was killed stays in the group until its session ends: up to 45 s with KIP-848."""
    with holder_beside(region, client_id_of(region.region, 4711)) as leave:
        member = region.member()
        until(lambda: is_settled(region))
        clock.move(LATE)
        assert not member.done()
        leave.set()
        rows = member.result(SECONDS).rows
    assert region.close().rows == rows == len(region.rows()) > 0


def test_a_member_of_an_earlier_run_that_stays_is_named_in_the_end(
    region: World, clock: Clock
) -> None:
    dead = client_id_of(region.region, 4711)
    with holder_beside(region, dead):
        member = region.member()
        until(lambda: is_settled(region))
        clock.now += PATIENCE + 1
        with pytest.raises(RunStalled) as stalled:
            member.result(SECONDS)
    assert [one.client_id for one in stalled.value.holders] == [dead]
    assert len(stalled.value.spans) == 1


LOCK = "SELECT FROM tidemark.regions WHERE region = %s FOR NO KEY UPDATE"


def test_a_region_that_somebody_has_locked_is_waited_for_up_to_a_bound(
    shared: World, clock: Clock
) -> None:
    """S17: by an idle session of somebody's own, which no time-out ends."""
    with (
        holder_beside(shared),
        closing(psycopg2.connect(**shared.warehouse)) as session,
        session.cursor() as cursor,
    ):
        member = shared.member()
        until(lambda: is_settled(shared))
        cursor.execute(LOCK, (shared.region,))
        clock.move(LATE)
        clock.move(PATIENCE)
        assert not member.done()
        clock.now += EXCUSED * PATIENCE + LOCKED_SECONDS
        with pytest.raises(RunStalled):
            member.result(SECONDS)
