"""Exactly once: contribute, and publish what that completes.

  3 plan        see plan.py
  4 drain       outside: one job reads exactly the planned spans
  5 stage       outside: rows, dead letters and read counts lie in the batch's own staging tables
  6 contribute  one ledger transaction: claim all spans or none; and if no span is left unclaimed,
    + publish   and no lower batch unpublished, publish in the same transaction (publish.py). COMMIT
                is the commit point
  7 mirror      see mirror.py

| crash after      | what the next one finds                                                   |
|------------------|---------------------------------------------------------------------------|
| 3, 4, 5          | the same plan within the epoch; a new plan from the same offsets after it |
| 6 before COMMIT  | as above; the contribution never was                                      |
| 6 after COMMIT   | the checkpoint; Kafka is brought level by the next open, close or reset   |
"""

from collections import Counter

from tidemark import failpoints
from tidemark.errors import OutcomeUnknown, StagingLost
from tidemark.model.batch import Batch, Contribution
from tidemark.protocol.errors import (
    BatchDied,
    ClaimedRowsLost,
    OwnRowsLost,
    SpanAlreadyClaimed,
)
from tidemark.protocol.ports import DecidingT, Ledger, Target
from tidemark.protocol.publish import Outcome, Result, publish


def contribute_and_publish(
    ledger: Ledger[DecidingT], target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> Outcome:
    """All spans of the contribution are claimed, and the batch is published if they were the last.

    If it crashes: before COMMIT nothing of it stands, after COMMIT all of it does. A COMMIT
    without an answer is looked up in the ledger under the region lock.

    Raises:
        Fenced: the epoch has passed.
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
    except StagingLost as error:
        if isinstance(error, OwnRowsLost) or _is_whole(batch, contribution):
            raise
        raise ClaimedRowsLost(region=batch.region, epoch=batch.epoch, cause=str(error)) from error


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
            raise SpanAlreadyClaimed(seq=batch.seq)
        tx.claim(batch, contribution)
        failpoints.hit("publish.claimed")
        is_due = tx.is_lowest(batch) and not tx.has_unclaimed(batch)
        if not (is_due and _is_whole(batch, contribution)):
            _refuse_lost(tx, target, batch, contribution)
        return publish(tx, target, batch) if is_due else Outcome(Result.contributed)


def _is_whole(batch: Batch, contribution: Contribution) -> bool:
    """Nobody else has claimed a span: what the publish counts is this contribution alone."""
    return len(contribution.reads) == batch.size


def _refuse_lost(
    tx: DecidingT, target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> None:
    rows, dead_letters = target.count_staged(tx, batch, contribution)
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
    ledger: Ledger[DecidingT], target: Target[DecidingT], batch: Batch, contribution: Contribution
) -> Outcome:
    match ledger.outcome(batch, contribution):
        case "published":
            rows = sum(contribution.rows.values())
            return Outcome(Result.published, rows, contribution.dead_letters, seq=batch.seq)
        case "contributed":
            return Outcome(Result.contributed)
        case "planned":
            # Definitely not committed: the lock was free and the contribution is not there.
            return _contribute(ledger, target, batch, contribution)
        case _:
            raise BatchDied(region=batch.region, seq=batch.seq)
