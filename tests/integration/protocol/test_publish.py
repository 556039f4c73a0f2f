"""Contribute and publish: the one transaction that makes a batch visible."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from psycopg2.errors import DivisionByZero
from sqlalchemy.engine import Engine
from tests.support.desk import Desk
from tests.support.failpoint import failpoint
from tests.support.world import dump

from tidemark.failpoints import FailpointHit
from tidemark.ledger.errors import EpochHasPassed
from tidemark.model.batch import Batch, Contribution
from tidemark.model.errors import epoch_is_lost
from tidemark.model.offsets import LogPosition
from tidemark.model.plan import Bounds
from tidemark.postgres.errors import (
    CommitRolledBack,
    MemberForgotten,
    PartitionStandsElsewhere,
    RegionForgotten,
    StagedRowsGone,
)
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.protocol.errors import BatchNotNextHead, ClaimedRowsLost, OwnRowsLost
from tidemark.protocol.publish import Result
from tidemark.staging.errors import RowRefused, StagingHasOtherColumns


def visible(desk: Desk) -> tuple[Any, ...]:
    """All that a publish may change."""
    state = desk.ledger.region_state(desk.region)
    return desk.rows(), desk.dead_letters(), desk.offsets(), state


def staged(desk: Desk) -> tuple[int, Batch, Contribution]:
    """The epoch of a new run, its first batch, and the contribution of a member that staged it."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    return epoch, batch, desk.stage(batch, desk.join(epoch))


def test_a_published_batch_is_rows_dead_letters_offsets_and_head_at_once(desk: Desk) -> None:
    """B1."""
    epoch = desk.open().epoch
    outcome = desk.work(epoch)
    assert outcome.result is Result.published
    assert set(desk.offsets().values()) == {10}
    assert desk.rows() == desk.expected_rows()
    assert desk.dead_letters() == [(0, 3), (1, 3)]
    assert (outcome.rows, outcome.dead_letters) == (14, 2)
    state = desk.ledger.region_state(desk.region)
    assert state is not None
    assert state.head_seq == 1


def test_contributions_of_two_members_make_one_batch(desk: Desk) -> None:
    """Nothing is visible before the last span is claimed."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    ours, theirs = ([p.span] for p in batch.spans)
    first = desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=ours))
    assert (first.result, desk.rows()) == (Result.contributed, [])
    second = desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=theirs))
    assert second.result is Result.published
    assert desk.rows() == desk.expected_rows()


def test_members_whose_rows_have_other_columns_stage_and_publish_nothing(desk: Desk) -> None:
    """G181: a transform was deployed between their starts; a column would be null, unsaid."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    contribution = desk.stage(batch, desk.join(epoch))
    writer = desk.target_writer
    desk.target_writer = replace(writer, columns=writer.columns[:-1])
    with autocommit(desk.engine) as cursor, pytest.raises(StagingHasOtherColumns):
        desk.target_writers.staging_fits(cursor, batch)
    with pytest.raises(StagingHasOtherColumns):
        desk.publish(batch, contribution)
    assert desk.rows() == []
    desk.target_writer = writer
    assert desk.publish(batch, contribution).result is Result.published


def test_a_contribution_claims_all_its_spans_or_none(desk: Desk) -> None:
    """H21."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    taken, free = (p.span for p in batch.spans)
    desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=[taken]))
    before = desk.sql(f"SELECT * FROM tidemark.contributions WHERE {desk.here}")
    refused = desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=[free, taken]))
    assert refused.result is Result.refused
    assert desk.sql(f"SELECT * FROM tidemark.contributions WHERE {desk.here}") == before
    claimed = "SELECT partition FROM tidemark.spans WHERE contribution IS NOT NULL AND "
    assert desk.sql(claimed + desk.here) == [(taken.partition,)]


def test_a_contribution_of_other_bounds_than_planned_is_refused(desk: Desk) -> None:
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    span = batch.spans[0].span
    shorter = type(span)(span.topic, span.partition, span.start, span.end - 1)
    result = desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=[shorter])).result
    assert result is Result.refused


def test_two_members_with_the_same_attempt_number_do_not_mix(desk: Desk) -> None:
    """H3: task attempts are counted from 0 in every SparkContext."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    desk.stage(batch, desk.join(epoch), attempt=0)  # dies here
    outcome = desk.publish(batch, desk.stage(batch, desk.join(epoch), attempt=0))
    assert outcome.result is Result.published
    assert desk.rows() == desk.expected_rows()
    assert desk.dead_letters() == [(0, 3), (1, 3)]


def test_a_losing_attempt_leaves_no_trace(desk: Desk) -> None:
    epoch = desk.open().epoch
    batch, member = desk.must_plan(epoch), desk.join(epoch)
    desk.stage(batch, member, attempt=0)
    desk.publish(batch, desk.stage(batch, member, attempt=1))
    assert desk.rows() == desk.expected_rows()
    assert desk.dead_letters() == [(0, 3), (1, 3)]


@pytest.mark.parametrize(
    ("emptied", "constraint"),
    [
        (("rows", "dead_letters"), "moved_rows_equal_contributed"),
        (("rows",), "moved_rows_equal_contributed"),
        (("dead_letters",), "moved_dead_letters_equal_contributed"),
    ],
)
def test_staging_that_was_emptied_is_staging_lost(
    desk: Desk, emptied: tuple[str, ...], constraint: str
) -> None:
    """H1: recovery empties UNLOGGED tables; the publish would move nothing and advance."""
    _, batch, contribution = staged(desk)
    before = visible(desk)
    for table in emptied:
        desk.sql(f"TRUNCATE {batch.staging.schema}.{getattr(batch.staging, table)}")
    with pytest.raises(StagedRowsGone) as lost:
        desk.publish(batch, contribution)
    assert lost.value.constraint == constraint
    assert visible(desk) == before


@pytest.mark.parametrize("emptied", ["rows", "dead_letters"])
def test_a_contribution_whose_staging_was_emptied_claims_nothing(desk: Desk, emptied: str) -> None:
    """H1: of two members; both drain again, and the batch is published in the same epoch."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    spans = [[p.span] for p in batch.spans]
    staged = [desk.stage(batch, desk.join(epoch), spans=some) for some in spans]
    desk.sql(f"TRUNCATE {batch.staging.schema}.{getattr(batch.staging, emptied)}")
    before = visible(desk)
    for contribution in staged:
        with pytest.raises(OwnRowsLost) as lost:
            desk.publish(batch, contribution)
        assert getattr(lost.value, emptied) == 0
    assert visible(desk) == before
    again = [desk.stage(batch, desk.join(epoch), spans=some) for some in spans]
    results = [desk.publish(batch, contribution).result for contribution in again]
    assert results == [Result.contributed, Result.published]
    assert desk.rows() == desk.expected_rows()
    assert desk.dead_letters() == [(0, 3), (1, 3)]


def test_the_last_contribution_drains_again_where_only_its_own_rows_are_lost(desk: Desk) -> None:
    """Claims that stand over rows that are there are no reason to end the epoch."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    first, second = ([p.span] for p in batch.spans)
    staged = desk.stage(batch, desk.join(epoch), spans=second)
    desk.lose_staging()
    desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=first))
    with pytest.raises(OwnRowsLost):
        desk.publish(batch, staged)
    again = desk.stage(batch, desk.join(epoch), spans=second)
    assert desk.publish(batch, again).result is Result.published
    assert desk.rows() == desk.expected_rows()


def test_staging_that_was_lost_under_claims_that_stand_ends_the_epoch(desk: Desk) -> None:
    """H1: no retry drains what another member has claimed."""
    epoch = desk.open().epoch
    batch = desk.must_plan(epoch)
    first, second = ([p.span] for p in batch.spans)
    desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=first))
    desk.lose_staging()
    before = visible(desk)
    with pytest.raises(ClaimedRowsLost) as lost:
        desk.publish(batch, desk.stage(batch, desk.join(epoch), spans=second))
    assert lost.value.epoch == epoch
    assert visible(desk) == before
    assert desk.work(desk.open("next").epoch).result is Result.published
    assert desk.rows() == desk.expected_rows()


def test_a_zombie_member_cannot_publish(desk: Desk) -> None:
    """B2, S31."""
    _, batch, contribution = staged(desk)
    desk.open("next")
    before = visible(desk)
    with pytest.raises(EpochHasPassed) as passed:
        desk.publish(batch, contribution)
    assert (passed.value.epoch, passed.value.found) == (1, 2)
    assert visible(desk) == before


def test_a_zombie_cannot_publish_into_the_next_epochs_batch(desk: Desk) -> None:
    """The batch of the next epoch has the same spans and another seq."""
    _, old, contribution = staged(desk)
    new_epoch = desk.open("next").epoch
    new = desk.must_plan(new_epoch)
    assert [p.span for p in new.spans] == [p.span for p in old.spans]
    assert new.seq != old.seq
    with pytest.raises(EpochHasPassed):
        desk.publish(old, contribution)
    assert desk.work(new_epoch).result is Result.published
    assert desk.rows() == desk.expected_rows()


def test_a_partition_that_was_moved_by_hand_stops_the_publish(desk: Desk) -> None:
    """The second line of defence: offsets by compare-and-set on the server."""
    _, batch, contribution = staged(desk)
    desk.sql(f"UPDATE tidemark.partitions SET next_offset = 1 WHERE partition = 1 AND {desk.here}")
    with pytest.raises(PartitionStandsElsewhere):
        desk.publish(batch, contribution)
    assert desk.rows() == []


def test_a_batch_with_an_older_seq_than_the_head_is_not_published(desk: Desk) -> None:
    """The last update must touch exactly one row."""
    _, batch, contribution = staged(desk)
    desk.sql(f"UPDATE tidemark.regions SET head_seq = 5, next_seq = 6 WHERE {desk.here}")
    with pytest.raises(BatchNotNextHead) as fenced:
        desk.publish(batch, contribution)
    assert fenced.value.seq == batch.seq
    assert desk.rows() == []


@pytest.mark.parametrize(
    ("constraint", "definition"),
    [
        ("offset_is_small", "CHECK (kafka_offset < 8)"),
        ("offset_is_unique", "UNIQUE (kafka_offset)"),
        ("later", "UNIQUE (kafka_offset) DEFERRABLE INITIALLY DEFERRED"),
    ],
)
def test_a_target_that_refuses_a_row_stops_the_publish(
    desk: Desk, constraint: str, definition: str
) -> None:
    _, batch, contribution = staged(desk)
    desk.sql(f"ALTER TABLE {desk.target} ADD CONSTRAINT {constraint} {definition}")
    before = visible(desk)
    with pytest.raises(RowRefused) as refused:
        desk.publish(batch, contribution)
    assert refused.value.names["constraint"] == constraint
    assert visible(desk) == before


@pytest.mark.parametrize(
    "point", ["publish.before", "publish.claimed", "publish.moved", "publish.commit.before"]
)
def test_a_crash_before_commit_leaves_nothing(desk: Desk, point: str) -> None:
    """H8: contribute and publish are one transaction, so there is no last contributor to lose."""
    _, batch, contribution = staged(desk)
    before = dump(desk.warehouse)
    with failpoint(point), pytest.raises(FailpointHit):
        desk.publish(batch, contribution)
    del before["sequences"]  # identities are not rolled back; nothing depends on them
    assert before.items() <= dump(desk.warehouse).items()


def test_a_commit_whose_answer_was_lost_is_found_published(desk: Desk) -> None:
    _, batch, contribution = staged(desk)
    with failpoint("publish.commit.sent"):
        outcome = desk.publish(batch, contribution)
    assert (outcome.result, outcome.rows, outcome.dead_letters) == (Result.published, 14, 2)
    assert desk.rows() == desk.expected_rows()
    assert desk.sql(f"SELECT count(*) FROM tidemark.contributions WHERE {desk.here}") == [(1,)]


def test_a_lost_commit_is_refused_if_another_claimed_its_spans_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch, batch, contribution = staged(desk)
    part = desk.stage(batch, desk.join(epoch), spans=[batch.spans[0].span])
    look_up = desk.ledger.outcome

    def after_another(*values: Any) -> str | None:
        assert desk.publish(batch, part).result is Result.contributed
        return look_up(*values)

    monkeypatch.setattr(desk.ledger, "outcome", after_another)
    with failpoint("publish.commit.lost"):
        assert desk.publish(batch, contribution).result is Result.refused
    assert desk.rows() == []


def test_a_lost_commit_is_fenced_if_the_epoch_passed_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, batch, contribution = staged(desk)
    look_up = desk.ledger.outcome

    def after_a_reset(*values: Any) -> str | None:
        desk.reset()
        return look_up(*values)

    monkeypatch.setattr(desk.ledger, "outcome", after_a_reset)
    with failpoint("publish.commit.lost"), pytest.raises(EpochHasPassed):
        desk.publish(batch, contribution)
    assert desk.rows() == []


def test_a_plan_that_a_failover_took_back_is_lost_and_nobody_is_blamed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT had no answer, the replica lacks the plan, and the epoch is the member's own still."""
    epoch, batch, contribution = staged(desk)
    look_up = desk.ledger.outcome

    def after_a_failover(*values: Any) -> str | None:
        desk.sql(f"DELETE FROM tidemark.batches WHERE {desk.here}")
        return look_up(*values)

    monkeypatch.setattr(desk.ledger, "outcome", after_a_failover)
    with failpoint("publish.commit.lost"):
        assert desk.publish(batch, contribution).result is Result.lost
    again = desk.must_plan(epoch)
    assert [one.span for one in again.spans] == [one.span for one in batch.spans]
    assert desk.publish(again, desk.stage(again, desk.join(epoch))).result is Result.published


def test_a_member_that_a_failover_took_back_is_told_to_register_anew(desk: Desk) -> None:
    """The next open may take its epoch again: who is not in the ledger contributes nothing."""
    _, batch, contribution = staged(desk)
    desk.sql(f"DELETE FROM tidemark.members WHERE member = {contribution.member}")
    with pytest.raises(MemberForgotten) as forgotten:
        desk.publish(batch, contribution)
    assert forgotten.value.retry_may_help
    assert desk.rows() == []


def test_a_region_that_is_gone_is_named_to_who_writes_without_its_lock(desk: Desk) -> None:
    """Whoever holds the lock finds it before."""
    epoch = desk.open().epoch
    desk.sql(f"DELETE FROM tidemark.run_targets WHERE {desk.here}")
    for table in ("runs", "partitions", "targets", "regions"):
        desk.sql(f"DELETE FROM tidemark.{table} WHERE {desk.here}")
    with pytest.raises(RegionForgotten):
        desk.join(epoch)


def test_an_epoch_that_a_failover_took_back_is_not_said_to_have_passed(desk: Desk) -> None:
    epoch, batch, contribution = staged(desk)
    desk.sql(f"DELETE FROM tidemark.batches WHERE {desk.here}")
    desk.sql(f"DELETE FROM tidemark.run_targets WHERE {desk.here}")
    desk.sql(f"DELETE FROM tidemark.runs WHERE {desk.here}")
    desk.sql(f"UPDATE tidemark.regions SET epoch = epoch - 1 WHERE {desk.here}")
    with pytest.raises(EpochHasPassed) as lost:
        desk.publish(batch, contribution)
    assert (lost.value.epoch, lost.value.found) == (epoch, epoch - 1)
    assert str(lost.value) == epoch_is_lost(desk.region, epoch, epoch - 1)
    with pytest.raises(EpochHasPassed):
        desk.ledger.progress(desk.region, epoch)


def test_a_commit_answered_with_rollback_is_found(desk: Desk) -> None:
    """Drivers report an aborted COMMIT as success; its tag does not."""

    def fail_unseen() -> None:
        with transaction(desk.engine, "x") as cursor:
            cursor.execute("CREATE TABLE public.never (n int)")
            with suppress(DivisionByZero):
                cursor.execute("SELECT 1 / 0")

    with pytest.raises(CommitRolledBack) as refused:
        fail_unseen()
    assert refused.value.answer == "ROLLBACK"
    assert desk.sql("SELECT to_regclass('public.never')::text") == [(None,)]


@pytest.fixture
def lone(ledger_database: tuple[Engine, dict[str, Any]]) -> Desk:
    """A region of one partition."""
    return Desk(*ledger_database, partitions=1)


READ_UP_TO = "SELECT next_offset, record_end, leader_epoch FROM tidemark.partitions WHERE {}"


def read_up_to(desk: Desk, *positions: LogPosition | None) -> list[tuple[Any, ...]]:
    """Publish a batch of four offsets for each position that its read told; what is known then."""
    desk.dead_letters_of = lambda span: []
    for position in positions:
        epoch = desk.open(f"run {desk.epoch}", Bounds(4)).epoch
        batch = desk.must_plan(epoch)
        told = desk.stage(batch, desk.join(epoch))
        reads = tuple(replace(read, read_up_to=position) for read in told.reads)
        desk.publish(batch, replace(told, reads=reads))
    return desk.sql(READ_UP_TO.format(desk.here))


def test_a_span_without_a_record_leaves_the_log_read_up_to_where_it_was(lone: Desk) -> None:
    """B7, KIP-320: else an election that rewrites what was read shows only to the next record."""
    lone.grow(12)
    assert read_up_to(lone, LogPosition(4, 7), None) == [(8, 4, 7)]
    assert read_up_to(lone, LogPosition(11, 8)) == [(12, 11, 8)]


def test_a_rewind_knows_the_last_record_before_a_span_without_one(lone: Desk) -> None:
    """B7."""
    lone.grow(12)
    read_up_to(lone, LogPosition(4, 7), None, LogPosition(12, 8))
    lone.rewind(2)
    assert lone.sql(READ_UP_TO.format(lone.here)) == [(8, 4, 7)]


def test_a_rewind_knows_the_last_record_though_its_batch_was_pruned(lone: Desk) -> None:
    """B7: pruning keeps a partition's newest boundary alone, which may hold no record."""
    lone.grow(16)
    read_up_to(lone, LogPosition(4, 7), None, None, LogPosition(16, 8))
    with lone.ledger.deciding(lone.region, lone.epoch, "prune") as tx:
        tx.prune(2, 100)
        tx.sweep_batches(100)
    assert lone.sql(f"SELECT seq FROM tidemark.spans WHERE {lone.here} ORDER BY 1") == [(3,), (4,)]
    lone.rewind(3)
    assert lone.sql(READ_UP_TO.format(lone.here)) == [(12, 4, 7)]


def test_the_next_batch_in_flight_knows_the_last_record_of_what_is_published(lone: Desk) -> None:
    """B7, B18: where nobody has told of one in the batch before it."""
    lone.grow(12)
    read_up_to(lone, LogPosition(4, 7))
    epoch = lone.open("two", Bounds(4, in_flight=2)).epoch
    lone.plan_next(epoch)
    lone.plan_next(epoch)
    found = [one.read_up_to for one in lone.ledger.unpublished_batches(lone.region)]
    assert [list(one.values()) for one in found] == [[LogPosition(4, 7)]] * 2
