"""Whole runs of one member on real Kafka and Postgres, without Spark."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from confluent_kafka import Consumer
from tests.support.documents import documented
from tests.support.executor import BAD, LocalExecutor, nothing
from tests.support.failpoint import failpoint, meanwhile
from tests.support.produce import good, numbered, open_transaction, produce, produce_transaction
from tests.support.said import said
from tests.support.waiting import until
from tests.support.world import World, everything, fail

from tidemark.admin.errors import RunNotClosed
from tidemark.admin.run import check_closed
from tidemark.errors import Fenced, JobFailed, MirrorFailed
from tidemark.failpoints import FailpointHit
from tidemark.kafka import _mirror_writer as writer_module
from tidemark.kafka import member as member_module
from tidemark.kafka.member import Member
from tidemark.model.batch import Batch
from tidemark.model.errors import SpansNotReadToTheEnd
from tidemark.model.offsets import Span
from tidemark.model.plan import Bounds
from tidemark.postgres.errors import StagedRowsGone
from tidemark.protocol import close as close_module
from tidemark.protocol.errors import (
    MirrorReadBackDiffers,
    RunNeverOpened,
    RunUnfinished,
    SettleDidNotHappen,
)
from tidemark.runs import _publisher as publisher_module
from tidemark.runs import _watch as watch_module
from tidemark.runs.errors import MemberFenced, RunNotOpen
from tidemark.runs.open import Opened, open_run

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


def test_the_executor_starts_beside_the_join(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka lets the first members of a group wait for others: 3 s by default."""

    def join_late(config: dict[str, Any]) -> Consumer:
        until(lambda: world.executors)
        return Consumer(config)

    monkeypatch.setattr(member_module, "Consumer", join_late)
    world.produce(3)
    assert world.run().rows == 3


def test_a_later_run_reads_only_what_came_after(world: World) -> None:
    """S12: the ledger comes before any start position."""
    world.produce(3)
    world.run("first")
    world.produce(4, start=3)
    assert world.run("second").rows == 4
    assert world.rows() == everything([7])


def test_a_bad_record_becomes_a_dead_letter_with_its_coordinates(world: World) -> None:
    produce(world.kafka, world.topic, [good("a"), BAD, good("b")])
    closed = world.run()
    assert (world.rows(), world.dead_letters()) == ([(0, 0), (0, 2)], [(0, 1)])
    assert (closed.rows, closed.dead_letters) == (2, 1)
    assert world.sql("SELECT value FROM tidemark.dead_letters")[0][0].tobytes() == BAD


def test_a_batch_of_dead_letters_alone_is_published(world: World) -> None:
    produce(world.kafka, world.topic, [BAD, BAD])
    assert world.run().dead_letters == 2
    assert (world.rows(), world.dead_letters()) == ([], [(0, 0), (0, 1)])


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


def test_a_retry_beside_its_living_predecessor_is_one_more_member(world: World) -> None:
    """H3, H5: one of the two is accepted, and both stage under attempt 0."""
    world.produce(5)
    world.open()
    second: list[object] = []

    def retry(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        world.after = lambda *_: None
        other = replace(world, executors=[])
        reading = replace(executor.job.reading, member=executor.member + 1000)
        staged = other.executor_of(replace(executor.job, reading=reading))
        second.append(staged.drain(batch, spans))

    world.after = retry
    world.drain()
    assert len(second) == 1
    assert world.close().rows == 5
    assert world.rows() == everything([5])


@pytest.mark.long
def test_the_next_open_discards_the_plan_and_never_uses_its_seq_again(world: World) -> None:
    world.produce(5)
    world.open("first")
    world.before = fail
    with pytest.raises(JobFailed):
        world.drain("first")
    world.before = lambda *_: None
    world.produce(5, start=5)
    world.run("second")
    old, new = world.executors[0].drained[0][0], world.executors[1].drained[0][0]
    assert new.seq > old.seq
    assert [p.span.width for p in new.spans] == [10]
    assert world.rows() == everything([10])


def test_a_run_stops_at_the_targets_seen_at_open(world: World) -> None:
    """H16: fast producers do not keep a run alive."""
    world.produce(4)
    world.open()
    world.produce(4, start=4)
    world.drain()
    world.close()
    assert world.rows() == everything([4])


def test_records_of_an_open_transaction_wait_for_a_later_run(world: World) -> None:
    """The target offset is the last stable one."""
    world.produce(2)
    producer = open_transaction(world.kafka, world.topic)
    world.run("first")
    assert world.rows() == [(0, 0), (0, 1)]
    producer.commit_transaction(120)
    world.run("second")
    assert world.rows() == [(0, 0), (0, 1), (0, 2)]


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


def test_closing_again_gives_the_same_answer(world: World) -> None:
    world.produce(3)
    closed = world.run()
    assert world.close() == closed


@pytest.mark.long
def test_clearing_the_open_task_opens_again_under_the_same_run_id(world: World) -> None:
    world.produce(3)
    first = world.open()
    second = world.open()
    assert second.epoch == first.epoch + 1
    assert world.drain().epoch == second.epoch
    assert world.close().rows == 3


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


@pytest.mark.long
def test_a_zombie_that_finished_its_job_cannot_publish(world: World) -> None:
    world.produce(3)
    world.open("first")
    world.after = lambda *_: world.reset()
    with pytest.raises(Fenced):
        world.drain("first")
    assert world.rows() == []
    world.after = lambda *_: None
    world.run("second")
    assert world.rows() == everything([3])


@pytest.mark.long
def test_staging_lost_to_a_crash_of_postgres_is_drained_again(world: World) -> None:
    """H1 through the whole loop: the retry, in the same epoch, drains the same plan."""
    world.produce(3)
    world.open()

    def recovery(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        world.sql(f"TRUNCATE {batch.staging.schema}.{batch.staging.rows}")

    world.after = recovery
    with pytest.raises(StagedRowsGone):
        world.drain()
    assert (world.rows(), set(world.ledger_offsets().values())) == ([], {0})
    assert set(world.kafka_offsets().values()) == {0}  # never ahead of the ledger
    world.after = lambda *_: None
    world.drain()
    assert world.close().rows == 3
    assert world.rows() == everything([3])


def test_a_read_that_was_cut_is_incomplete(world: World) -> None:
    """A transform with limit(): rows arrive, a span has no complete read."""
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


def test_what_a_member_remarks_is_said_once_of_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalExecutor, "remarks", lambda self: ("it groups", "it groups"))
    world.produce(3)
    world.open()
    world.ledger().remark(world.region, 1, ["it cuts"])
    world.drain()
    world.ledger().remark(world.region, 1, ["it groups"])
    assert world.sql("SELECT remarks FROM tidemark.runs") == [(["it cuts", "it groups"],)]


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


def test_a_mirror_that_fails_does_not_fail_the_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.produce(3)
    world.open()

    def failing(*_: object) -> None:
        raise said(MirrorFailed, "as the test wants it")

    monkeypatch.setattr(publisher_module, "mirror", failing)
    world.drain()
    assert world.kafka_offsets()[world.partition()] == 0
    world.close()
    assert world.kafka_offsets()[world.partition()] == 3


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


@pytest.mark.long
@pytest.mark.parametrize("point", ["open.commit.sent", "open.commit.lost"])
def test_an_open_without_an_answer_is_looked_up(world: World, point: str) -> None:
    world.produce(3)
    world.open("first")
    with failpoint(point):
        if point == "open.commit.sent":
            assert world.open("second").epoch == 2
        else:
            with pytest.raises(SettleDidNotHappen):
                world.open("second")
    epochs = world.sql("SELECT count(*) FROM tidemark.runs")
    assert epochs == [(2 if point == "open.commit.sent" else 1,)]


def cleared(world: World, run_id: str) -> Opened:
    """The open of a run of which a task was cleared, and no drain."""
    return open_run(
        world.pipeline, world.connections, run_id=run_id, bounds=Bounds(100), members_come=False
    )


def test_a_run_that_is_closed_is_not_opened_for_nobody(world: World) -> None:
    """B11, G97: whichever of its other tasks was cleared, and whatever came since."""
    world.produce(2)
    world.run("done")
    world.produce(3, start=2)
    assert cleared(world, "done").epoch == 1
    assert (world.close("done").rows, world.sql("SELECT epoch, state FROM tidemark.runs")) == (
        2,
        [(1, "closed")],
    )
    world.run("later")
    assert cleared(world, "done").epoch == 1
    assert world.close("done").rows == 2
    check_closed(world.pipeline, world.connections, run_id="done")
    assert len(world.rows()) == 5


def test_a_run_that_failed_in_its_mirror_alone_is_closed_by_its_close(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B11, G97: on a topic that lives; its reset came in between."""
    world.produce(2)
    world.open("red")
    world.drain("red")

    def differs(*_: object) -> NoReturn:
        raise MirrorReadBackDiffers(region=world.region, differences=())

    with monkeypatch.context() as patch:
        patch.setattr(close_module, "mirror", differs)
        with pytest.raises(RunUnfinished):
            world.close("red")
    world.reset("red")
    world.produce(3, start=2)
    assert (cleared(world, "red").backlog, world.close("red").batches) == (0, 0)
    check_closed(world.pipeline, world.connections, run_id="red")
    assert world.run("next").rows == 3


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
        cleared(world, "done")
    world.open("done")
    world.drain("done")
    assert world.close("done").rows == 3
    check_closed(world.pipeline, world.connections, run_id="done")
