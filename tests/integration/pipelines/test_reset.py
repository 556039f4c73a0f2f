"""Resets to the head, by a run and by hand, once or twice, late or dry."""

from dataclasses import replace

import pytest
from tests.support.failpoint import failpoint
from tests.support.world import World, dump, fail, staging

from tidemark.admin.errors import ResetOfNoRun
from tidemark.admin.reset import ResetReport
from tidemark.errors import JobFailed
from tidemark.failpoints import FailpointHit
from tidemark.protocol.errors import AlreadyReset, NothingLeftToReset

MONDAY = "flights_reset/monday"


def counts(report: ResetReport) -> tuple[int, int, int] | None:
    """What a task tells of what is gone."""
    gone = report.removed
    return (gone.batches, gone.rows, gone.dead_letters) if gone else None


def requested(world: World, to: int | None = None) -> ResetReport:
    """The reset of one DAG run by hand."""
    return world.reset(to=to, request_id=MONDAY)


def a_failed_run_and_drift(world: World, kafka: int) -> None:
    """One checkpoint, then a run that staged nothing; Kafka's offset of partition 0 is `kafka`."""
    world.produce(3)
    world.run("first")
    world.produce(3, start=3)
    world.open("second")
    world.before = fail
    with pytest.raises(JobFailed):
        world.drain("second")
    with world.group.writer() as writer:
        writer.commit({world.partition(0): kafka}, "drift")


def test_a_reset_restores_the_merged_checkpoint_and_drops_staging(world: World) -> None:
    a_failed_run_and_drift(world, kafka=99)
    report = world.reset("second")
    assert (report.applied, report.discarded_seqs, report.head_seq) == (True, (2,), 1)
    assert world.kafka_offsets() == world.ledger_offsets() == report.offsets
    assert staging(world) == []
    assert world.sql("SELECT state, run_id, discarded_seqs FROM tidemark.resets") == [
        ("finished", "second", [2])
    ]


def test_a_late_reset_of_an_older_run_does_nothing(world: World) -> None:
    """H6: run 1 fails, run 2 opens, and the reset of run 1 must not fence it."""
    world.produce(3)
    world.open("first")
    world.open("second")
    before = dump(world.warehouse)
    with pytest.raises(NothingLeftToReset) as late:
        world.reset("first")
    assert (late.value.epoch, late.value.now_at) == (1, 2)
    assert dump(world.warehouse) == before
    world.drain("second")
    assert world.close("second").rows == 3


def test_a_reset_that_died_before_its_mirror_is_finished_by_its_retry(world: World) -> None:
    """Airflow's retry names the run's epoch, which the reset itself has passed."""
    world.produce(3)
    world.open("first")
    with world.group.writer() as writer:
        writer.commit({world.partition(): 9}, "ahead")
    with failpoint("reset.decided"), pytest.raises(FailpointHit):
        world.reset("first")
    assert world.kafka_offsets()[world.partition()] == 9
    assert world.reset("first").epoch == 2
    assert world.kafka_offsets()[world.partition()] == 0
    assert world.sql("SELECT epoch, state FROM tidemark.resets") == [(2, "finished")]
    with pytest.raises(NothingLeftToReset):
        world.reset("first")


@pytest.mark.parametrize("to", [None, 1])
def test_a_request_whose_answer_was_lost_tells_it_again_until_an_epoch_follows(
    world: World, to: int | None
) -> None:
    """A task that died between its reset and its answer; and one that is cleared long after."""
    for run in ("first", "second"):
        world.produce(3)
        world.run(run)
    first = requested(world, to)
    before, offsets = dump(world.warehouse), world.kafka_offsets()
    again = requested(world, to)
    assert (dump(world.warehouse), world.kafka_offsets()) == (before, offsets)
    assert replace(again, removed=None) == replace(first, removed=None)
    assert [counts(one) for one in (first, again)] == [None if to is None else (1, 3, 0)] * 2
    world.open("third")
    before = dump(world.warehouse)
    with pytest.raises(AlreadyReset) as done:
        requested(world, to)
    assert (done.value.request_id, done.value.finished.epoch) == (MONDAY, first.epoch)
    assert dump(world.warehouse) == before


@pytest.mark.long
def test_a_reset_for_a_run_that_never_opened_does_nothing(world: World) -> None:
    world.open("first")
    with pytest.raises(ResetOfNoRun) as unknown:
        world.reset("missing")
    assert unknown.value.run_id == "missing"


def test_a_first_open_that_died_before_its_decision_can_be_reset(world: World) -> None:
    with failpoint("open.before"), pytest.raises(FailpointHit):
        world.open()
    assert world.reset().applied
    assert world.kafka_offsets() == {}
