"""Whole runs of one member on real Kafka and Postgres, without Spark."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from tests.support.documents import documented
from tests.support.executor import LocalExecutor, nothing
from tests.support.failpoint import failpoint, meanwhile
from tests.support.produce import numbered, open_transaction, produce_transaction
from tests.support.said import said
from tests.support.world import World, everything, fail

from tidemark.admin.errors import RunNotClosed
from tidemark.admin.run import check_closed
from tidemark.errors import JobFailed, MirrorFailed, StagingLost
from tidemark.failpoints import FailpointHit
from tidemark.kafka import _mirror_writer as writer_module
from tidemark.kafka.member import Member
from tidemark.model.batch import Batch, Contribution
from tidemark.model.errors import ReadsLost, SpansNotReadToTheEnd
from tidemark.model.offsets import Span
from tidemark.model.plan import Bounds
from tidemark.protocol import close as close_module
from tidemark.protocol.errors import (
    RunNeverOpened,
    RunUnfinished,
)
from tidemark.runs import _watch as watch_module
from tidemark.runs._stager import Stager
from tidemark.runs.errors import MemberFenced, RunNotOpen

SECONDS = 120


def test_a_run_drains_every_record_once(world: World) -> None:
    world.produce(7, partition=0)
    world.produce(5, partition=1)
    closed = world.run(max_records=4)
    assert world.rows() == everything([7, 5])
    assert (closed.rows, closed.batches, closed.records) == (12, 3, 12)
    assert world.kafka_offsets() == world.ledger_offsets() == closed.checkpoint.offsets


def test_no_batch_exceeds_max_records_and_its_shares_are_fair(world: World) -> None:
    """S28, S29: what a short partition leaves goes to the other, and the odd record takes turns."""
    world.produce(6, partition=0)
    world.produce(3, partition=1)
    world.run(max_records=3)
    planned = world.sql(
        "SELECT seq, partition, end_offset - start_offset FROM tidemark.spans ORDER BY 1, 2"
    )
    assert planned == [(1, 0, 1), (1, 1, 2), (2, 0, 2), (2, 1, 1), (3, 0, 3)]


@pytest.mark.long
def test_a_second_run_without_a_backlog_starts_no_executor_and_joins_no_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.produce(3)
    world.run("first")
    executors = len(world.executors)
    monkeypatch.delattr(Member, "__enter__")
    closed = world.run("second")
    assert (len(world.executors), closed.batches) == (executors, 0)
    assert world.rows() == everything([3])


def test_a_later_run_reads_only_what_came_after(world: World) -> None:
    """S12: the ledger comes before any start position."""
    world.produce(3)
    world.run("first")
    world.produce(4, start=3)
    assert world.run("second").rows == 4
    assert world.rows() == everything([7])


def test_aborted_transactions_are_passed_over(world: World) -> None:
    produce_transaction(world.kafka, world.topic, numbered(3))  # 0-2, marker at 3
    produce_transaction(world.kafka, world.topic, numbered(2), abort=True)  # 4-5, marker at 6
    produce_transaction(world.kafka, world.topic, numbered(1))  # 7, marker at 8
    world.run(max_records=2)
    assert world.rows() == [(0, 0), (0, 1), (0, 2), (0, 7)]
    assert world.ledger_offsets()[world.partition()] == 9


def test_a_batch_that_holds_nothing_but_markers_advances(world: World) -> None:
    produce_transaction(world.kafka, world.topic, numbered(2), abort=True)
    closed = world.run()
    assert (world.rows(), closed.records) == ([], 0)
    assert world.kafka_offsets()[world.partition()] == 3


def test_a_retry_joins_the_same_epoch_and_takes_the_same_plan(world: World) -> None:
    """H4, H5: members never open, and a plan is fixed within its epoch."""
    world.produce(5)
    epoch = world.open(max_records=3).epoch
    world.before = fail
    with pytest.raises(JobFailed):
        world.drain()
    world.before = lambda *_: None
    world.produce(5, start=5)
    drained = world.drain()
    first, again = (executor.drained[0] for executor in world.executors)
    assert first == again
    assert drained.epoch == epoch
    world.close()
    assert world.rows() == everything([5])


def test_a_run_stops_at_the_targets_seen_at_open(world: World) -> None:
    """H16: fast producers do not keep a run alive."""
    world.produce(4)
    world.open()
    world.produce(4, start=4)
    world.drain()
    world.close()
    assert world.rows() == everything([4])


ALERT = "FROM tidemark.region_status\nWHERE"


def test_a_transaction_that_hangs_is_a_remark_of_each_run_and_an_alert(world: World) -> None:
    """B16: what lies behind it is never read, and a run that reads all it may is green."""
    hidden = "SELECT lso_lag, lso_stuck_since FROM tidemark.region_status"
    world.produce(2)
    producer = open_transaction(world.kafka, world.topic)
    world.run("first")
    assert world.sql(hidden) == [(None, None)]  # a transaction under way is nothing odd
    [(since,)] = world.sql("SELECT stable_since FROM tidemark.run_targets WHERE partition = 0")
    for run_id in ("second", "third"):
        [remark] = world.open(run_id).remarks
        assert f"{world.partition()}: a transaction has been open at offset 2 since" in remark
        assert f"abort --topic {world.topic} --partition 0 --start-offset 2" in remark
        world.drain(run_id)
        assert world.close(run_id).rows == 0
        assert world.sql(hidden) == [(1, since)]
    assert world.sql(documented(ALERT)) == []
    world.sql("UPDATE tidemark.run_targets SET stable_since = stable_since - interval '2 hours'")
    assert [row[0] for row in world.sql(documented(ALERT))] == [world.region]
    producer.commit_transaction(120)
    assert world.open("fourth").remarks == ()
    world.drain("fourth")
    assert world.close("fourth").rows == 1
    assert world.sql(documented(ALERT)) == []


def test_a_backlog_gives_at_least_one_record_and_none_gives_no_batch(world: World) -> None:
    """H15."""
    world.produce(2, partition=0)
    world.produce(1, partition=1)
    closed = world.run(max_records=1)
    assert closed.batches == 3
    assert world.run("again").batches == 0
    assert world.sql("SELECT count(*) FROM tidemark.batches") == [(3,)]


def test_max_batches_ends_a_run_green(world: World) -> None:
    world.produce(10)
    closed = world.run(max_records=3, max_batches=2)
    assert (closed.batches, closed.rows) == (2, 6)
    assert world.sql("SELECT bound, state FROM tidemark.runs") == [("max_batches", "closed")]


def test_a_time_bound_that_is_over_before_the_first_plan_lets_one_batch_through(
    world: World,
) -> None:
    """H11, B6: a slow start is no failure, and green means that something moved."""
    world.produce(5)
    world.open(max_records=2, max_seconds=1)
    world.sql("UPDATE tidemark.runs SET opened_at = opened_at - interval '2 seconds'")
    world.drain()
    closed = world.close()
    assert (closed.batches, closed.rows) == (1, 2)
    assert world.sql("SELECT bound, state FROM tidemark.runs") == [("max_seconds", "closed")]


@pytest.mark.long
def test_a_run_with_a_backlog_that_published_nothing_is_red(world: World) -> None:
    """H11: a bound in the ledger is no success if nothing moved."""
    world.produce(3)
    world.open()
    world.sql("UPDATE tidemark.runs SET bound = 'max_seconds'")
    world.drain()
    with pytest.raises(RunUnfinished) as unfinished:
        world.close()
    [reason] = unfinished.value.reasons
    assert reason == "there was a backlog of 3 offsets, and no batch was published"
    assert world.sql("SELECT state FROM tidemark.runs") == [("failed",)]


def test_a_run_whose_members_never_came_is_red(world: World) -> None:
    """H11: skipped is failed."""
    world.produce(3)
    world.open()
    with pytest.raises(RunUnfinished) as unfinished:
        world.close()
    behind = f"{world.partition()} is at 0, its target offset is 3"
    assert unfinished.value.reasons[0] == behind


def test_a_run_that_never_opened_is_red(world: World) -> None:
    world.run("another")
    with pytest.raises(RunNeverOpened) as closed:
        world.close("missing")
    with pytest.raises(RunNotOpen) as drained:
        world.drain("missing")
    assert closed.value.run_id == drained.value.run_id == "missing"


def test_a_run_with_an_unpublished_batch_is_red(world: World) -> None:
    world.produce(3)
    world.open()
    world.before = fail
    with pytest.raises(JobFailed):
        world.drain()
    with pytest.raises(RunUnfinished) as unfinished:
        world.close()
    assert unfinished.value.reasons[0] == "batch 1 is planned and not published"


def test_a_fenced_member_cancels_its_job_and_publishes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12: the epoch is looked at while the job runs; whoever holds an older one stops.

    The run that fenced it, and its records, are untouched by that.
    """
    monkeypatch.setattr(watch_module, "WATCH_SECONDS", 0.1)
    world.produce(3)
    world.open("first")

    def take_over(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        world.open("second")
        assert executor.cancelled.wait(SECONDS)

    world.before = take_over
    with pytest.raises(MemberFenced) as fenced:
        world.drain("first")
    assert fenced.value.epoch == 1
    assert world.executors[0].closed.is_set()
    assert world.sql("SELECT count(*) FROM public.records") == [(0,)]
    world.before = nothing
    world.drain("second")
    assert world.close("second").rows == 3


def test_a_read_that_was_cut_is_incomplete(world: World) -> None:
    """A transform with limit(): rows arrive, a span has no complete read."""
    world.settings = {"transform": "no_such_module:cut"}  # which the tests' executor leaves out
    world.produce(3, partition=0)
    world.produce(3, partition=1)
    world.open()

    def cut(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        world.sql(f"DELETE FROM {batch.staging.schema}.{batch.staging.reads} WHERE partition = 1")

    world.after = cut
    with pytest.raises(SpansNotReadToTheEnd) as incomplete:
        world.drain()
    assert incomplete.value.spans == (Span(world.topic, 1, 0, 3),)
    assert world.rows() == []


@pytest.mark.parametrize("transform", [None, "no_such_module:filters"])
def test_a_read_that_postgres_has_lost_is_drained_again(
    world: World, transform: str | None
) -> None:
    """A fail-over, to a replica that lacks the newest commits, comes behind the job.

    Rows are not logged, so they are gone with the reads. No transform is blamed, and a retry helps.
    """
    world.settings = {"transform": transform} if transform else {}
    world.produce(3)
    world.open()

    def lose(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        world.sql(f"DELETE FROM {batch.staging.schema}.{batch.staging.reads}")
        world.sql(f"TRUNCATE {batch.staging.schema}.{batch.staging.rows}")

    world.after = lose
    with pytest.raises(ReadsLost) as lost:
        world.drain()
    assert lost.value.spans == (Span(world.topic, 0, 0, 3),)
    assert lost.value.retry_may_help
    world.after = lambda *_: None
    world.drain()
    assert world.close().rows == 3


@pytest.mark.parametrize("step", ["job", "reads", "publish"])
def test_tables_that_postgres_has_lost_are_made_anew_by_the_next_try(
    world: World, step: str
) -> None:
    """The replica has the plan, and lacks the tables: no migration and no transform is blamed."""
    world.settings = {"transform": "no_such_module:filters"}
    world.produce(3)
    world.open()

    def lose(*_: object) -> None:
        for kind in ("rows", "dead_letters", "reads"):
            world.sql(f'DROP TABLE tidemark_staging."{world.region}_1_{kind}"')

    if step != "publish":
        setattr(world, {"job": "before", "reads": "after"}[step], lose)
    with (
        meanwhile("publish.before", lose) if step == "publish" else nullcontext(),
        pytest.raises(StagingLost) as lost,
    ):
        world.drain()
    assert lost.value.retry_may_help
    world.before = world.after = lambda *_: None
    world.drain()
    assert world.close().rows == 3


def test_tables_that_were_made_ahead_are_looked_for_before_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fail-over took them back, with the plan, whose seq is given out again: it has none then."""
    world.produce(6)
    world.begin("run", Bounds(3, None, None, None, 2))
    staged, found = Stager.staged, list[list[tuple[Any, ...]]]()

    def lost(self: Stager, batch: Batch, spans: Sequence[Span]) -> Contribution | None:
        if batch.seq == 2:
            names = (batch.staging.rows, batch.staging.dead_letters, batch.staging.reads)
            found.append(world.sql(f"SELECT to_regclass('tidemark_staging.\"{names[0]}\"')"))
            for name in names:
                world.sql(f'DROP TABLE tidemark_staging."{name}"')
        return staged(self, batch, spans)

    monkeypatch.setattr(Stager, "staged", lost)
    assert world.drain().rows == 6
    assert found[0] != [(None,)]
    assert world.close().rows == 6


@pytest.mark.parametrize(
    "point",
    [
        "mirror.before",
        pytest.param("mirror.fenced", marks=pytest.mark.long),
        pytest.param("mirror.read", marks=pytest.mark.long),
        "mirror.sent",
    ],
)
def test_a_crash_before_the_mirror_is_made_good_by_the_next_open(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Step 7 is best effort inside a run; the ledger stands, Kafka is behind and never ahead."""
    world.produce(3)
    world.open()
    with monkeypatch.context() as brief:
        # Until Kafka aborts what died within its transaction, the next open waits for the offsets.
        brief.setattr(writer_module, "TRANSACTION_TIMEOUT_MS", 1000)
        with failpoint(point), pytest.raises(FailpointHit):
            world.drain()
    assert world.rows() == everything([3])
    assert world.ledger_offsets()[world.partition()] == 3
    world.open("second")
    assert world.kafka_offsets() == world.ledger_offsets()


@pytest.mark.long
def test_a_run_whose_mirror_fails_at_close_is_red_until_it_is_closed_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror is best effort inside a run and obligatory at its end."""
    world.produce(3)
    world.open()
    world.drain()

    def failing(*_: object) -> None:
        raise said(MirrorFailed, "as the test wants it")

    with monkeypatch.context() as patched:
        patched.setattr(close_module, "mirror", failing)
        with pytest.raises(RunUnfinished) as unfinished:
            world.close()
    assert unfinished.value.reasons == ("as the test wants it",)
    assert world.sql("SELECT state FROM tidemark.runs") == [("failed",)]
    assert world.close().rows == 3
    assert world.sql("SELECT state, reason FROM tidemark.runs") == [("closed", None)]


def test_a_batch_that_is_published_while_its_run_is_closed_is_mirrored_too(world: World) -> None:
    """By a driver that outlived its task and dies before its own mirror."""
    world.produce(3)
    world.open()

    def drain() -> None:
        with failpoint("publish.commit.after"), suppress(FailpointHit):
            world.drain()

    with meanwhile("mirror.after", drain):
        closed = world.close()
    assert (closed.rows, closed.checkpoint.seq) == (3, 1)
    assert world.kafka_offsets() == world.ledger_offsets() == closed.checkpoint.offsets


def test_a_run_that_nobody_drained_is_not_closed(world: World) -> None:
    """B11, G97: not by its tasks that had been green."""
    world.produce(2)
    world.run("done")
    world.produce(3, start=2)
    world.open("done")
    for _ in range(2):
        with pytest.raises(RunUnfinished):
            world.close("done")
        with pytest.raises(RunNotClosed) as told:
            check_closed(world.pipeline, world.connections, run_id="done")
        assert told.value.state == "failed"
    world.open("done")
    world.drain("done")
    assert world.close("done").rows == 3
    check_closed(world.pipeline, world.connections, run_id="done")
