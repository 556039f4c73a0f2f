"""Publish: a complete batch becomes visible, in the order of the batches.

In one ledger transaction: move rows and dead letters, refuse too many dead letters, compare-and-set
every partition, write the counts, advance the head from the batch before. COMMIT is the commit
point. A batch that is complete before it is the lowest waits, and whoever looks next publishes it.
"""

from dataclasses import dataclass
from enum import StrEnum

from tidemark import failpoints
from tidemark.errors import OutcomeUnknown, StagingLost
from tidemark.model.batch import Batch, Moved
from tidemark.model.errors import DeadLettersOverLimit
from tidemark.protocol.errors import BatchNotNextHead, ClaimedRowsLost
from tidemark.protocol.ports import DecidingT, Ledger, Target


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
    seq: int | None = None
    """Of the batch that was published."""


def publish_complete(
    ledger: Ledger[DecidingT], target: Target[DecidingT], region: str, epoch: int
) -> Outcome | None:
    """The lowest unpublished batch is published if it is complete; None if it is not.

    If it crashes: before COMMIT nothing of it stands, and whoever looks next publishes it. After a
    COMMIT without an answer the next look tells: a batch is published once.

    Raises:
        Fenced: the epoch has passed.
        ClaimsLost: what lies under its claims is not: their spans nobody drains again.
        TargetRefused: a constraint of the target refuses a row.
        TooManyDeadLetters: more of the batch's records are dead letters than its run allows.
    """
    failpoints.hit("publish.before")
    try:
        return _publish_or_look_again(ledger, target, region, epoch)
    except StagingLost as error:
        raise ClaimedRowsLost(region=region, epoch=epoch, cause=str(error)) from error


def _publish_or_look_again(
    ledger: Ledger[DecidingT], target: Target[DecidingT], region: str, epoch: int
) -> Outcome | None:
    try:
        return _publish_lowest(ledger, target, region, epoch)
    except OutcomeUnknown:
        return _publish_lowest(ledger, target, region, epoch)


def _publish_lowest(
    ledger: Ledger[DecidingT], target: Target[DecidingT], region: str, epoch: int
) -> Outcome | None:
    with ledger.deciding(region, epoch, "publish") as tx:
        batches = tx.unpublished_batches(owned=())
        if not batches or not batches[0].is_complete:
            return None
        return publish(tx, target, batches[0])


def publish(tx: DecidingT, target: Target[DecidingT], batch: Batch) -> Outcome:
    """The batch is the region's head once this transaction is committed.

    Raises:
        Fenced: the batch before it is not the head.
        StagingLost: what is staged is not what was contributed.
        TargetRefused: a constraint of the target refuses a row.
        TooManyDeadLetters: more of the batch's records are dead letters than its run allows.
    """
    counted = tx.count_dead_letters(batch)
    by_target = target.move_rows(tx, batch, counted.room)
    moved = Moved.total(by_target.values())
    dead_letters = target.move_dead_letters(tx, batch) + moved.dead_letters
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
