"""Exactly once: plan, contribute and publish.

  3 plan        Kafka's facts first, then one ledger transaction under region lock and epoch:
                take the epoch's unpublished batch, or share max_records and write batch + spans
  4 drain       outside: one job reads exactly the planned spans
  5 stage       outside: rows, dead letters and read counts lie in the batch's own staging tables
  6 contribute  one ledger transaction: claim all spans or none; and if no span is left unclaimed
    + publish   move rows and dead letters, refuse too many dead letters, compare-and-set every
                partition, write the counts, advance the head. COMMIT is the commit point
  7 mirror      see mirror.py

| crash after      | what the next one finds                                                   |
|------------------|---------------------------------------------------------------------------|
| 3, 4, 5          | the same plan within the epoch; a new plan from the same offsets after it |
| 6 before COMMIT  | as above; the contribution never was                                      |
| 6 after COMMIT   | the checkpoint; Kafka is brought level by the next open, close or reset   |
"""

from dataclasses import dataclass
from enum import StrEnum

from tidemark import failpoints
from tidemark.errors import ClaimsLost, Fenced, OutcomeUnknown, StagingLost, TidemarkError
from tidemark.model.batch import Batch, Contribution
from tidemark.model.bounds import slow_start
from tidemark.model.corruption import reached, stopped
from tidemark.model.dead_letters import too_many
from tidemark.model.facts import Facts, check_retained, check_topic_ids
from tidemark.model.offsets import Span
from tidemark.model.plan import fit, plan
from tidemark.protocol.ports import Deciding, DecidingT, Ledger, Target


class SpanAlreadyClaimed(TidemarkError):
    """Another contribution was accepted for one of the spans: this one never was."""


class OwnRowsLost(TidemarkError):
    """What the contribution has staged is not all there: nothing of it was claimed."""


class Result(StrEnum):
    """What became of a contribution."""

    published = "published"
    contributed = "contributed"
    refused = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a contribution, with what a publish made visible."""

    result: Result
    rows: int = 0
    dead_letters: int = 0
    refused: int = 0
    """Of the dead letters, those that the target refused."""


def plan_batch(ledger: Ledger[Deciding], region: str, epoch: int, facts: Facts) -> Batch | None:
    """The epoch's unpublished batch, planned now if there was none; None when the run is done.

    A plan is fixed within its epoch and dies with it: an unpublished batch is taken as it is.

    Raises:
        Fenced: the epoch has passed.
        DataLost: Kafka no longer holds what the plan needs.
    """
    failpoints.hit("plan.before")
    with ledger.deciding(region, epoch, "plan") as tx:
        batch = tx.unpublished_batch()
        if batch is not None:
            return batch
        if bound := tx.bound_reached():
            tx.write_bound(bound)
            return None
        spans = _share(tx)
        if not spans:
            return None
        check_retained(region, {span.topic_partition: span.start for span in spans}, facts)
        batch = tx.write_batch(spans)
        check_topic_ids(region, ((p.span.topic, p.topic_id) for p in batch.spans), facts)
        failpoints.hit("plan.inside")
    failpoints.hit("plan.after")
    return batch


def _share(tx: Deciding) -> tuple[Span, ...]:
    """The spans of the next batch.

    A corrupt range is passed where the ledger stands at its start, when all before it is published.
    """
    accepted, next_offsets, bounds = tx.accepted_corrupt(), tx.next_offsets(), tx.bounds()
    for span in reached(accepted, next_offsets):
        tx.pass_over(span)
        next_offsets[span.topic_partition] = span.end
    targets = stopped(tx.target_offsets(), next_offsets, accepted)
    most = slow_start(bounds.max_records, tx.batches_since_reset())
    if bounds.max_bytes is None:
        return plan(next_offsets, targets, most, tx.next_seq)
    weights = tx.bytes_per_offset()
    return fit(next_offsets, targets, most, tx.next_seq, weights, bounds.max_bytes)


def contribute_and_publish(
    ledger: Ledger[DecidingT], target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> Outcome:
    """All spans of the contribution are claimed, and the batch is published if they were the last.

    If it crashes: before COMMIT nothing of it stands, after COMMIT all of it does. A COMMIT
    without an answer is looked up in the ledger under the region lock.

    Raises:
        Fenced: the epoch has passed or the batch is no longer its unpublished one.
        StagingLost: what this member has staged is not all there; nothing is claimed, and it may
            drain its spans again.
        ClaimsLost: what lies under earlier claims is not: their spans nobody drains again.
        TargetRefused: a constraint of the target refuses a row.
        TooManyDeadLetters: more of the batch's records are dead letters than its run allows.
    """
    failpoints.hit("publish.before")
    try:
        return _contribute_or_look_up(ledger, target, batch, contribution)
    except SpanAlreadyClaimed:
        return Outcome(Result.refused)
    except OwnRowsLost as error:
        raise StagingLost(str(error)) from error
    except StagingLost as error:
        if _is_whole(batch, contribution):
            raise
        raise ClaimsLost(
            f"region {batch.region}, epoch {batch.epoch}, batch {batch.seq}: {error}. Some are"
            " claimed and can't be drained again in this epoch; a reset, or the next run, ends it"
        ) from error


def _contribute_or_look_up(
    ledger: Ledger[DecidingT], target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> Outcome:
    try:
        return _contribute(ledger, target, batch, contribution)
    except OutcomeUnknown:
        return _look_up(ledger, target, batch, contribution)


def _contribute(
    ledger: Ledger[DecidingT], target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> Outcome:
    with ledger.deciding(batch.region, batch.epoch, "publish") as tx:
        if not tx.is_unpublished(batch):
            raise SpanAlreadyClaimed(f"batch {batch.seq} is no longer the unpublished one")
        tx.claim(batch, contribution)
        failpoints.hit("publish.claimed")
        if not _is_whole(batch, contribution):
            _refuse_lost(tx, target, batch, contribution)
        if tx.unclaimed_spans(batch):
            return Outcome(Result.contributed)
        counted = tx.count_dead_letters(batch)
        moved = target.move_rows(tx, batch, counted.room)
        dead_letters = target.move_dead_letters(tx, batch) + moved.dead_letters
        failpoints.hit("publish.moved")
        if not counted.allows(moved.refused_records):
            reasons = tx.commonest_reasons(batch)
            raise too_many(batch.region, batch.seq, counted, moved.refused_records, reasons)
        tx.advance_partitions(batch)
        tx.publish_batch(batch, moved, dead_letters)
        if tx.advance_head(batch) != 1:
            raise Fenced(f"region {batch.region}: batch {batch.seq} can't become the head")
    return Outcome(Result.published, moved.rows, dead_letters, moved.refused_records)


def _is_whole(batch: Batch, contribution: Contribution) -> bool:
    """Nobody else has claimed a span: what the publish counts is this contribution alone."""
    return len(contribution.reads) == len(batch.spans)


def _refuse_lost(
    tx: DecidingT, target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> None:
    rows, dead_letters = target.count_staged(tx, batch, contribution)
    if (rows, dead_letters) != (contribution.rows, contribution.dead_letters):
        raise OwnRowsLost(
            f"region {batch.region}, epoch {batch.epoch}, batch {batch.seq}: {rows} of"
            f" {contribution.rows} staged rows and {dead_letters} of"
            f" {contribution.dead_letters} staged dead letters are there, as after a crash of"
            " Postgres. Nothing of them was claimed; a retry or the next run drains them again"
        )


def _look_up(
    ledger: Ledger[DecidingT], target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> Outcome:
    match ledger.outcome(batch, contribution.member):
        case "published":
            return Outcome(Result.published, contribution.rows, contribution.dead_letters)
        case "contributed":
            return Outcome(Result.contributed)
        case "planned":
            # Definitely not committed: the lock was free and the contribution is not there.
            return _contribute(ledger, target, batch, contribution)
        case _:
            raise Fenced(f"region {batch.region}: batch {batch.seq} died with its epoch")
