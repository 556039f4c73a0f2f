"""One batch again: its spans are read anew, and its rows are replaced under the same seq.

  1 fence    settle.py, as a reset: epoch+1, everything unpublished is discarded, Kafka mirrored
  2 plan     one ledger transaction under that epoch: the batch is there and whole; an unpublished
             batch of kind again keeps the place of what will be staged
  3 drain    outside: one job reads the spans from Kafka; records that a replay has made rows of
             are set aside
  4 publish  one ledger transaction: rows and dead letters go, as many as the ledger says; the new
             ones come in their place; the unpublished batch goes. COMMIT is the commit point

No partition moves, no checkpoint comes or goes. A rewind past the batch removes its rows as ever.

| crash after      | what the next one finds                                              |
|------------------|----------------------------------------------------------------------|
| 1, 2, 3          | the batch as it was; the next open or replay discards what is planned |
| 4 before COMMIT  | as above                                                             |
| 4 after COMMIT   | the batch with its new rows                                          |
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tidemark import failpoints
from tidemark.errors import OutcomeUnknown
from tidemark.model.batch import Batch, Contribution, Moved, Rows
from tidemark.protocol.errors import BatchReplayEnded
from tidemark.protocol.removal import Removal

# ruff: noqa: D102 -- what a method does stands where it is done: in the ledger, in staging


class Again(Protocol):
    """A ledger transaction that holds the region lock under the epoch of a batch's replay."""

    def write_again(self, seq: int) -> Batch: ...
    def take_again(self, batch: Batch) -> int: ...
    def published_of(self, batch: Batch) -> Removal: ...
    def remove_letters(self, batch: Batch) -> int: ...
    def claim_again(self, batch: Batch, contribution: Contribution) -> None: ...
    def publish_again(self, batch: Batch, moved: Mapping[str, Moved], dead_letters: int) -> int: ...


AgainT = TypeVar("AgainT", bound=Again)
AgainT_co = TypeVar("AgainT_co", bound=Again, covariant=True)
AgainT_contra = TypeVar("AgainT_contra", bound=Again, contravariant=True)


class AgainLedger(Protocol[AgainT_co]):
    """Where it is decided, and looked up where its COMMIT had no answer."""

    def deciding(self, region: str, epoch: int, name: str) -> AbstractContextManager[AgainT_co]: ...
    def again_outcome(self, batch: Batch) -> tuple[int, int] | None: ...


class Replacing(Protocol[AgainT_contra]):
    """Replaces what a batch has published, inside the caller's transaction."""

    def remove_batch(self, transaction: AgainT_contra, batch: Batch) -> Rows: ...
    def move_rows(
        self, transaction: AgainT_contra, batch: Batch, room: int | None
    ) -> dict[str, Moved]: ...
    def move_letters(self, transaction: AgainT_contra, batch: Batch) -> int: ...


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What a batch holds after its replay."""

    rows: int
    dead_letters: int
    """With those that a replay has made rows of."""


def plan_again(ledger: AgainLedger[AgainT], region: str, epoch: int, seq: int) -> Batch:
    """The published batch, to be staged under a seq of its own.

    Raises:
        Fenced: the epoch has passed.
        Refused: it can't be read again; see the ledger.
    """
    failpoints.hit("again.before")
    with ledger.deciding(region, epoch, "plan") as tx:
        return tx.write_again(seq)


def publish_again(
    ledger: AgainLedger[AgainT],
    target: Replacing[AgainT],
    batch: Batch,
    contribution: Contribution,
) -> ReadAgain:
    """The batch's rows and dead letters are those that were staged.

    If it crashes: before COMMIT nothing of it stands. A COMMIT without an answer is looked up.

    Raises:
        Fenced: the epoch has passed, or what was planned died with it.
        Refused: not exactly what the ledger published is there.
        StagingLost: what is staged is not what was contributed.
        TargetRefused: a constraint of the target refuses a row, or keeps one.
    """
    failpoints.hit("again.staged")
    try:
        return _publish(ledger, target, batch, contribution)
    except OutcomeUnknown:
        found = ledger.again_outcome(batch)
        return ReadAgain(*found) if found else _publish(ledger, target, batch, contribution)


def _publish(
    ledger: AgainLedger[AgainT],
    target: Replacing[AgainT],
    batch: Batch,
    contribution: Contribution,
) -> ReadAgain:
    with ledger.deciding(batch.region, batch.epoch, "again") as tx:
        if tx.take_again(batch) != 1:
            raise BatchReplayEnded(region=batch.region, seq=batch.seq)
        published = tx.published_of(batch)
        removed = Removal(target.remove_batch(tx, batch), tx.remove_letters(batch))
        published.check(batch.region, removed, batch.seq)
        tx.claim_again(batch, contribution)
        moved = target.move_rows(tx, batch, None)
        letters = target.move_letters(tx, batch)
        failpoints.hit("again.moved")
        dead_letters = tx.publish_again(batch, moved, letters)
        return ReadAgain(sum(one.rows for one in moved.values()), dead_letters)
