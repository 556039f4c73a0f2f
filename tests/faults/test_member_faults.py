"""Members that are killed, stopped and let go beside others that live."""

import signal
from collections.abc import Sequence
from threading import Barrier

import pytest
from tests.faults.broken import SECONDS, Broken
from tests.faults.region import FaultRegion
from tests.support.executor import LocalExecutor, nothing
from tests.support.processes import family, resume
from tests.support.waiting import until
from tests.support.world import World

from tidemark.errors import Fenced, StagingLost, Unreachable
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark_local.postgres import Postgres


def ends_well(*members: Broken) -> None:
    """Each member ends green."""
    for member in members:
        code, words = member.end()
        assert code == 0, words


def closes_in_its_epoch(region: FaultRegion, epoch: int) -> None:
    """The run is closed, nobody has taken another epoch, and everything is there once."""
    region.close(region.newest_run())
    assert region.sql("SELECT epoch FROM tidemark.regions") == [(epoch,)]
    assert region.faults_found() == []


def test_the_others_stand_in_for_a_member_that_was_killed(region: FaultRegion) -> None:
    """S1, S23: after its session time-out, without a reset and without a new epoch."""
    region.open()
    killed = Broken.start(region, "member", "drain.staged=stop")
    killed.wait_until_stopped()
    others = [Broken.start(region, "member") for _ in range(2)]
    killed.kill()
    ends_well(*others)
    closes_in_its_epoch(region, 1)


def test_what_a_killed_member_had_contributed_counts(region: FaultRegion) -> None:
    """H8, S14: its claims stand, the batch is published by whoever claims the rest."""
    region.open()
    killed = Broken.start(region, "member", "publish.commit.after=kill")
    assert killed.end()[0] == -signal.SIGKILL
    ends_well(Broken.start(region, "member"))
    closes_in_its_epoch(region, 1)


@pytest.mark.long
def test_a_member_that_slept_beyond_its_session_finds_its_work_done(region: FaultRegion) -> None:
    """S33, H3: what it staged is refused or accepted, never both."""
    region.open()
    sleeper = Broken.start(region, "member", "publish.before=stop")
    stopped = sleeper.wait_until_stopped()
    ends_well(Broken.start(region, "member"))
    resume(stopped)
    ends_well(sleeper)
    closes_in_its_epoch(region, 1)


@pytest.mark.long
def test_a_reader_that_slept_beyond_its_members_session_changes_nothing(
    region: FaultRegion,
) -> None:
    """An executor that is stopped while the partitions go to another member."""
    region.open()
    sleeper = Broken.start(region, "member", "read.middle=stop")
    sleeper.wait_until_stopped()
    driver, *children = family(sleeper.pid)
    driver.suspend()
    ends_well(Broken.start(region, "member"))
    for process in (driver, *children):
        resume(process)
    code, words = sleeper.end()
    assert code in (0, 1), words
    closes_in_its_epoch(region, 1)


def test_members_whose_staging_a_crash_of_postgres_emptied_drain_again_in_their_epoch(
    region: FaultRegion, breakable: Postgres
) -> None:
    """H1: neither claims what is gone, so their retries need no new epoch."""
    world = World(region.kafka, region.warehouse, region.topic, region.region, region.settings)
    both, at_once = Barrier(3), Barrier(3)

    def share(executor: LocalExecutor, _: Batch, spans: Sequence[Span]) -> None:
        until(lambda: sum(bool(one.partitions) for one in world.group.holders()) == 2)
        if len(spans) == region.partitions:
            assert executor.interrupted.wait(SECONDS)

    def stand_by(*_: object) -> None:
        both.wait(SECONDS)
        at_once.wait(SECONDS)

    world.before, world.after = share, stand_by
    epoch = world.open().epoch
    members = [world.member(slot) for slot in (1, 2)]
    both.wait(SECONDS)
    breakable.stop("immediate")
    breakable.start()
    at_once.wait(SECONDS)
    for member in members:
        with pytest.raises((StagingLost, Unreachable)):
            member.result(SECONDS)
    world.before = world.after = nothing
    assert world.drain().rows > 0
    closes_in_its_epoch(region, epoch)


@pytest.mark.long
def test_members_alive_while_a_reset_dies_are_fenced(region: FaultRegion) -> None:
    """The ancestor lost records when a member was killed while the region was reset."""
    region.open()
    members = [Broken.start(region, "member", "publish.before=stop") for _ in range(2)]
    stopped = [member.wait_until_stopped() for member in members]
    code, _ = Broken.start(region, "reset", "reset.decided=kill").end()
    assert code == -signal.SIGKILL
    for process in stopped:
        resume(process)
    for member in members:
        code, words = member.end()
        assert code == Fenced.exit_code, words
    region.run()
    assert region.faults_found() == []


@pytest.mark.long
def test_a_rewind_beside_living_members_fences_them_and_is_exact(region: FaultRegion) -> None:
    """B4, S15: the members stop at once and say so; the next run reads what was removed."""
    region.run()
    region.rewind()
    region.open()
    member = Broken.start(region, "member", "publish.before=stop")
    stopped = member.wait_until_stopped()
    region.rewind()
    resume(stopped)
    code, words = member.end()
    assert code == Fenced.exit_code, words
    region.run()
    assert region.faults_found() == []
