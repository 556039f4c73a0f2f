"""Resets to the head, by a run and by hand, once or twice, late or dry."""

import pytest
from tests.support.world import World, dump, fail, staging

from tidemark.admin.errors import ResetOfNoRun
from tidemark.errors import JobFailed
from tidemark.protocol.errors import NothingLeftToReset


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


@pytest.mark.long
def test_a_reset_for_a_run_that_never_opened_does_nothing(world: World) -> None:
    world.open("first")
    with pytest.raises(ResetOfNoRun) as unknown:
        world.reset("missing")
    assert unknown.value.run_id == "missing"
