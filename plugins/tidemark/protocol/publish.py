"""Exactly once: contribute, and publish what that completes.

  3 plan        see plan.py
  4 drain       outside: one job reads exactly the planned spans
  5 stage       outside: rows, dead letters and read counts lie in the batch's own staging tables
  6 contribute  one ledger transaction: claim all spans or none, none if they were read so late that
    + publish   deletions may be gone; and if no span is left unclaimed, and no lower batch
                unpublished, publish in the same transaction. COMMIT is the commit point
  7 mirror      see mirror.py

Publish makes a complete batch visible, in the order of the batches: move rows and dead letters,
refuse too many dead letters, compare-and-set every partition, write the counts, advance the head
from the batch before. A batch that is complete before it is the lowest waits, and whoever looks
next publishes it.

| crash after      | what the next one finds                                                   |
|------------------|---------------------------------------------------------------------------|
| 3, 4, 5          | the same plan within the epoch; a new plan from the same offsets after it |
| 6 before COMMIT  | as above; the contribution never was                                      |
| 6 after COMMIT   | the checkpoint; Kafka is brought level by the next open, close or reset   |
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from tidemark import failpoints
from tidemark.errors import OutcomeUnknown, StagingLost
from tidemark.model.batch import Batch, Contribution, Moved
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.protocol.errors import (
    BatchNotNextHead,
    ClaimedRowsLost,
    OwnRowsLost,
    SpanAlreadyClaimed,
)
from tidemark.protocol.plan import refuse_late
from tidemark.protocol.ports import Deciding, Ledger, StagedRows


class Result(StrEnum):
    """What became of a contribution."""

    published = "published"
    contributed = "contributed"
    refused = "refused"
    lost = "lost"
    """The batch is not planned, though its epoch stands: Postgres has lost the plan."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a contribution, with what a publish made visible."""

    result: Result
    rows: int = 0
    dead_letters: int = 0
    refused: int = 0
    """Of the dead letters, those that the target refused."""
    seq: int | None = None
    """Of the batch that was published."""


def publish_complete(ledger: Ledger, staged: StagedRows, region: str, epoch: int) -> Outcome | None:
    """The lowest unpublished batch is published if it is complete; None if it is not.

    If it crashes: before COMMIT nothing of it stands, and whoever looks next publishes it. After a
    COMMIT without an answer the next look tells: a batch is published once.

    Raises:
        Fenced: the epoch has passed.
        ClaimsLost: staged rows of claimed spans are not all there; nobody drains these again.
        TargetRefused: a constraint of the target refuses a row.
        TooManyDeadLetters: more of the batch's records are dead letters than its run allows.
    """
    failpoints.hit("publish.before")
    try:
        return _publish_or_look_again(ledger, staged, region, epoch)
    except StagingLost as error:
        raise ClaimedRowsLost(region=region, epoch=epoch, cause=str(error)) from error


def _publish_or_look_again(
    ledger: Ledger, staged: StagedRows, region: str, epoch: int
) -> Outcome | None:
    try:
        return _publish_lowest(ledger, staged, region, epoch)
    except OutcomeUnknown:
        return _publish_lowest(ledger, staged, region, epoch)


def _publish_lowest(ledger: Ledger, staged: StagedRows, region: str, epoch: int) -> Outcome | None:
    with ledger.deciding(region, epoch, "publish") as tx:
        batches = tx.unpublished_batches(owned=())
        if not batches or not batches[0].is_complete:
            return None
        return publish(tx, staged, batches[0])


def publish(tx: Deciding, staged: StagedRows, batch: Batch) -> Outcome:
    """The batch is the region's head once this transaction is committed.

    Raises:
        Fenced: the batch before it is not the head.
        StagingLost: what is staged is not what was contributed.
        TargetRefused: a constraint of the target refuses a row.
        TooManyDeadLetters: more of the batch's records are dead letters than its run allows.
    """
    counted = tx.count_dead_letters(batch)
    by_target = staged.move_rows(tx, batch, counted.room)
    moved = Moved.total(by_target.values())
    dead_letters = staged.move_dead_letters(tx, batch) + moved.dead_letters
    failpoints.hit("publish.moved")
    if not counted.allows(moved.refused_records):
        raise DeadLettersOverLimit(
            region=batch.region,
            seq=batch.seq,
            records=counted.records,
            dead_letters=counted.dead_letters,
            refused=moved.refused_records,
            most=counted.most,
            max_ratio=counted.limits.max_ratio,
            max_count=counted.limits.max_count,
            reasons=tuple(tx.commonest_reasons(batch)),
        )
    tx.advance_partitions(batch)
    tx.publish_batch(batch, by_target, dead_letters)
    if tx.advance_head(batch) != 1:
        raise BatchNotNextHead(region=batch.region, seq=batch.seq)
    return Outcome(Result.published, moved.rows, dead_letters, moved.refused_records, seq=batch.seq)


def contribute_and_publish(
    ledger: Ledger, staged: StagedRows, batch: Batch, contribution: Contribution
) -> Outcome:
    """All spans of the contribution are claimed, and the batch is published if they were the last.

    If it crashes: before COMMIT nothing of it stands, after COMMIT all of it does. A COMMIT
    without an answer is looked up in the ledger under the region lock.

    Raises:
        Fenced: the epoch has passed.
        DataLost: compaction may have taken deletions of these spans before they were read.
        StagingLost: what this member has staged is not all there; nothing is claimed, and it may
            drain its spans again.
        ClaimsLost: staged rows of spans that were claimed earlier are not all there; nobody
            drains these again.
        TargetRefused: a constraint of the target refuses a row.
        TooManyDeadLetters: more of the batch's records are dead letters than its run allows.
    """
    failpoints.hit("publish.before")
    try:
        return _contribute_or_look_up(ledger, staged, batch, contribution)
    except SpanAlreadyClaimed:
        return Outcome(Result.refused)
    except StagingLost as error:
        if isinstance(error, OwnRowsLost) or _is_whole(batch, contribution):
            raise
        raise ClaimedRowsLost(region=batch.region, epoch=batch.epoch, cause=str(error)) from error


def _contribute_or_look_up(
    ledger: Ledger, staged: StagedRows, batch: Batch, contribution: Contribution
) -> Outcome:
    try:
        return _contribute(ledger, staged, batch, contribution)
    except OutcomeUnknown:
        return _look_up(ledger, staged, batch, contribution)


def _contribute(
    ledger: Ledger, staged: StagedRows, batch: Batch, contribution: Contribution
) -> Outcome:
    with ledger.deciding(batch.region, batch.epoch, "publish") as tx:
        if not tx.is_unpublished(batch):
            raise SpanAlreadyClaimed(seq=batch.seq)
        tx.claim(batch, contribution)
        refuse_late(tx, batch.region, (read.span for read in contribution.reads))
        failpoints.hit("publish.claimed")
        is_due = tx.is_due(batch)
        if not (is_due and _is_whole(batch, contribution)):
            _refuse_lost(tx, staged, batch, contribution)
        return publish(tx, staged, batch) if is_due else Outcome(Result.contributed)


def _is_whole(batch: Batch, contribution: Contribution) -> bool:
    """Nobody else has claimed a span: what the publish counts is this contribution alone."""
    return len(contribution.reads) == batch.size


def _refuse_lost(
    tx: Deciding, staged: StagedRows, batch: Batch, contribution: Contribution
) -> None:
    rows, dead_letters = staged.count_staged(tx, batch, contribution)
    found, contributed = Counter(rows), Counter(contribution.rows)
    if (found, dead_letters) != (contributed, contribution.dead_letters):
        raise OwnRowsLost(
            region=batch.region,
            epoch=batch.epoch,
            seq=batch.seq,
            rows=found.total(),
            contributed_rows=contributed.total(),
            dead_letters=dead_letters,
            contributed_dead_letters=contribution.dead_letters,
        )


def _look_up(
    ledger: Ledger, staged: StagedRows, batch: Batch, contribution: Contribution
) -> Outcome:
    match ledger.outcome(batch, contribution):
        case "published":
            rows = sum(contribution.rows.values())
            return Outcome(Result.published, rows, contribution.dead_letters, seq=batch.seq)
        case "contributed":
            return Outcome(Result.contributed)
        case "planned":
            # Definitely not committed: the lock was free and the contribution is not there.
            return _contribute(ledger, staged, batch, contribution)
        case _:
            return _look_for_epoch(ledger, batch)


def _look_for_epoch(ledger: Ledger, batch: Batch) -> Outcome:
    """A newer epoch has discarded the batch; or else a fail-over took its plan back.

    Raises:
        Fenced: the epoch has passed.
    """
    with ledger.deciding(batch.region, batch.epoch, "publish"):
        return Outcome(Result.lost)
