"""Replay, exactly once: dead letters become rows where they can.

  1 fence    settle.py, as a reset: epoch+1, everything unpublished is discarded, Kafka mirrored
  2 plan     one ledger transaction under that epoch: those that are not replayed are chosen; a
             batch of kind replay is written that follows the head
  3 drain    outside, one job: the chosen records are read as the ledger keeps them
  4 publish  one ledger transaction; its COMMIT is the commit point: rows move, what failed again
             stays with its new reason, each of the others is marked by compare-and-set, the head
             advances
No partition moves: the merged checkpoint of the new head is that of the one before. A rewind past
the batch removes its rows and its marks.

| crash after      | what the next one finds                                                   |
|------------------|---------------------------------------------------------------------------|
| 1, 2, 3          | all as it was; the next open or replay discards what is planned           |
| 4 before COMMIT  | as above                                                                  |
| 4 after COMMIT   | all of it; Kafka's offsets are equal already, their metadata may be older |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tidemark import failpoints
from tidemark.errors import OutcomeUnknown
from tidemark.model.batch import Batch, Contribution
from tidemark.model.dead_letters import DeadLetterFilter, Replayed
from tidemark.model.state import ResetKind
from tidemark.protocol.changes import changes, refuse_other_targets
from tidemark.protocol.errors import (
    BatchDied,
    BatchNotNextHead,
    ChangedBeforeReplay,
    DeadLettersUnread,
)
from tidemark.protocol.ports import Ledger, ReplayedRows, Settling
from tidemark.protocol.reset import ResetRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest(ResetRequest):
    """The reset by hand with which a replay begins."""

    targets: Mapping[str, str]
    """Tables that the rows go to, by their names."""
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    """What the replayed rows will be made with."""

    kind: ClassVar[ResetKind] = "replay"

    def check(self, tx: Settling) -> None:
        """Stop where another epoch came, or rows would be made with other settings.

        Raises:
            Superseded: another open or a reset came after the region was looked at.
            Refused: the checkpoint was made with other settings, or with other targets.
        """
        ResetRequest.check(self, tx)
        refuse_other_targets(tx.state, self.targets)
        if found := tuple(changes(tx, self.fingerprint, self.targets)):
            raise ChangedBeforeReplay(region=tx.state.region, changes=found)


def plan_replay(
    ledger: Ledger, region: str, epoch: int, meant: DeadLetterFilter, limit: int
) -> Batch | None:
    """The epoch's batch of dead letters, at most `limit`; None where none is meant.

    Raises:
        Fenced: the epoch has passed.
    """
    failpoints.hit("replay.before")
    with ledger.deciding(region, epoch, "plan") as tx:
        return tx.write_replay(meant, limit)


def publish_replay(
    ledger: Ledger,
    staged: ReplayedRows,
    batch: Batch,
    contribution: Contribution,
) -> Replayed:
    """The chosen dead letters are rows, or stay with a new reason; the batch is the head.

    If it crashes: before COMMIT nothing of it stands. A COMMIT without an answer is looked up.

    Raises:
        Fenced: the epoch has passed, or the batch died with it.
        StagingLost: what is staged is not what was contributed, or a chosen dead letter is gone.
        TargetRefused: a constraint of the target refuses a row.
    """
    failpoints.hit("replay.staged")
    try:
        return _publish(ledger, staged, batch, contribution)
    except OutcomeUnknown:
        return ledger.replay_outcome(batch) or _publish(ledger, staged, batch, contribution)


def _publish(
    ledger: Ledger,
    staged: ReplayedRows,
    batch: Batch,
    contribution: Contribution,
) -> Replayed:
    with ledger.deciding(batch.region, batch.epoch, "replay") as tx:
        if not tx.is_unpublished(batch):
            raise BatchDied(region=batch.region, seq=batch.seq)
        tx.write_contribution(batch, contribution)
        moved = staged.move_rows(tx, batch, None)
        kept = staged.keep_dead_letters(tx, batch, contribution)
        replayed = tx.mark_replayed(batch)
        failpoints.hit("replay.moved")
        tx.publish_replay(batch, contribution, moved, replayed, kept)
        _refuse_unread(batch, contribution, replayed + kept)
        if tx.advance_head(batch) != 1:
            raise BatchNotNextHead(region=batch.region, seq=batch.seq)
        return Replayed(batch.seq, replayed, kept, sum(one.rows for one in moved.values()))


def _refuse_unread(batch: Batch, contribution: Contribution, chosen: int) -> None:
    """Whoever reads may see fewer: by row security, or on a standby that lags."""
    read = sum(one.records for one in contribution.reads)
    if read != chosen:
        raise DeadLettersUnread(region=batch.region, seq=batch.seq, chosen=chosen, read=read)
