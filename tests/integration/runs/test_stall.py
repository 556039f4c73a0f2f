"""How long members wait for partitions that somebody else holds, by a clock that the test moves."""

from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event, Lock
from typing import Any

import psycopg2
import pytest
from tests.support.clock import Clock
from tests.support.executor import LocalExecutor
from tests.support.failpoint import meanwhile
from tests.support.stranger import holder_beside
from tests.support.waiting import until
from tests.support.world import World, fail

from tidemark.errors import JobFailed
from tidemark.ledger.reader import Progress
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.model.plan import Bounds
from tidemark.runs import _drain as drain_module
from tidemark.runs._stall import EXCUSED, FOREIGN_SECONDS, LOCKED_SECONDS, StallDetector
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


@pytest.mark.long
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


def late(clock: Clock) -> None:
    """Nobody else would be waited for as long."""
    clock.now += PATIENCE + 1


def test_a_members_own_contribution_on_its_way_is_no_stall(
    shared: World, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry takes over the only batch; its job takes long, and its publish begins a while later.

    The ledger is then as the member saw it at its first look.
    """
    shared.reset()
    shared.begin("run", Bounds(1000, None, None, None, 2))
    shared.before = fail
    with pytest.raises(JobFailed):
        shared.drain()
    shared.before = lambda *_: None
    shared.after = lambda *_: late(clock)
    looks, look = [0], StallDetector.progress

    def counted(stall: StallDetector, **given: Any) -> Progress:
        try:
            return look(stall, **given)
        finally:
            looks[0] += 1

    def wait_for_a_look() -> None:
        seen = looks[0]
        late(clock)
        until(lambda: looks[0] > seen)

    monkeypatch.setattr(StallDetector, "progress", counted)
    with meanwhile("publish.before", wait_for_a_look):
        assert shared.drain().rows == 6
    assert shared.close().rows == 6


STAGED = """
INSERT INTO tidemark_staging."{}_1_dead_letters"
    (member, attempt, topic, partition, "offset", reason, detail, value)
SELECT 0, 0, 't', 0, n, 'r', 'd', repeat('x', 1000)::bytea FROM generate_series(1, 100) n
"""


def test_a_slow_job_that_stages_is_waited_for(shared: World, clock: Clock) -> None:
    """Its batch grew while records were easy, and its transform became slow in mid-run.

    What a task stages shows before it commits: who has done its part waits, however long.
    """
    first, done = Lock(), Event()

    def slow(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if len(spans) > 1:  # the other one has yet to join
            until(executor.interrupted.is_set)
        elif first.acquire(blocking=False):
            until(done.is_set)

    shared.before = slow
    members = [shared.member(slot) for slot in (1, 2)]
    until(lambda: is_half_done(shared))
    with closing(psycopg2.connect(**shared.warehouse)) as task, task.cursor() as cursor:
        clock.move(LATE)
        for _ in range(3):
            cursor.execute(STAGED.format(shared.region))
            clock.move(PATIENCE + LATE)
            assert not any(member.done() for member in members)
    done.set()
    assert sum(member.result(SECONDS).rows for member in members) == 6
    assert shared.close().rows == 6
    measured = "SELECT drain_seconds > 0 AND publish_seconds > 0 FROM tidemark.batches"
    assert shared.sql(measured) == [(True,)]


def is_half_done(world: World) -> bool:
    """One member has claimed its part, and waits for the other one."""
    claimed = world.sql("SELECT count(*) FROM tidemark.spans WHERE contribution IS NOT NULL")
    shown = world.sql("SELECT state FROM tidemark.members ORDER BY state")
    return (claimed, shown) == ([(1,)], [("draining",), ("waiting",)])
