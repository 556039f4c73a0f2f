"""Reads of the ledger without the region lock: results may be stale, so they decide nothing.

Each is one statement in its own transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine

from tidemark.ledger import regions, rewinds
from tidemark.ledger.errors import EpochHasPassed, RunIsPruned
from tidemark.ledger.rewinds import Reread
from tidemark.ledger.sending import checkpoint_at
from tidemark.model.batch import STAGING_SCHEMA, Batch, Checkpoint, Staging
from tidemark.model.deletions import UnreadSince
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.state import FinishedReset, Owner, Partition, RegionState, Run
from tidemark.postgres.session import query
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.rewind_plan import RewindPlan


class Lookup:
    """Reads the ledger through an engine; no decision uses the result."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def ledger_is_there(self) -> bool:
        """Whether the database has a ledger."""
        return bool(self._rows("ledger_is_there")[0][0])

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with autocommit(self.engine) as cursor:
            cursor.execute(query(name), values)
            return list(cursor.fetchall())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, in one snapshot."""

    epoch: int
    """The region's epoch; the rest holds only while it is the run's."""
    head_seq: int
    claimed: int
    """Spans of unpublished batches that are claimed."""
    is_done: bool
    """Nothing is unpublished, and the target offsets or the run's bound are reached."""
    unpublished_seqs: Sequence[int] = ()
    """The unpublished batches, the lowest first."""
    sent_seq: int | None = None
    """The newest batch that was read back as sent to an output topic: sending is progress too."""


@dataclass(frozen=True, slots=True)
class OtherRun:
    """An open run that holds the region's epoch."""

    run_id: str
    quiet: timedelta
    """Since an open, a plan, a publish or a member's state; by the server's clock."""
    members: int
    """That have registered."""


class Reader(Lookup):
    """Reads of the ledger's present state, through an engine."""

    def rewind_is_under_way(self, region: str) -> bool:
        """Whether a rewind has lowered Kafka and not yet the ledger; it may have crashed there."""
        with autocommit(self.engine) as cursor:
            return rewinds.rewind_is_under_way(cursor, region)

    def withholding_is_under_way(self, region: str) -> bool:
        """Whether one has read what was sent, and may write that a batch is never sent."""
        return bool(self._rows("withholding_is_under_way", region=region)[0][0])

    def others_of(self, region: str, group_id: str, tables: Collection[str]) -> tuple[Owner, ...]:
        """Other regions that have this group or one of these tables."""
        with autocommit(self.engine) as cursor:
            return regions.others_of(cursor, region, group_id, tables)

    def target_oid(self, target: str) -> int | None:
        """The OID of the table that has this name now; None if there is none."""
        with autocommit(self.engine) as cursor:
            return regions.target_oid(cursor, target)

    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]:
        """The form of the texts of each of these columns that the table of this name has now."""
        with autocommit(self.engine) as cursor:
            return regions.key_forms(cursor, target, columns)

    def unread(self, region: str) -> dict[TopicPartition, UnreadSince]:
        """How long deletions of each partition may have waited to be read."""
        with autocommit(self.engine) as cursor:
            return regions.unread(cursor, region)

    def rewind_plan(self, region: str, to_seq: int) -> RewindPlan:
        """What a rewind to a checkpoint would remove and restore."""
        with autocommit(self.engine) as cursor:
            return rewinds.rewind_plan(cursor, region, to_seq)

    def reread(self, region: str, to_seq: int) -> list[Reread]:
        """What a rewind to a checkpoint would read again of each partition."""
        with autocommit(self.engine) as cursor:
            return rewinds.reread(cursor, region, to_seq)

    def checkpoint_before(self, region: str, offsets: Offsets) -> int:
        """The newest checkpoint at or below these offsets in every partition; 0 is the start."""
        rows = self._rows(
            "checkpoint_before",
            region=region,
            topics=[partition.topic for partition in offsets],
            partitions=[partition.partition for partition in offsets],
            offsets=list(offsets.values()),
        )
        return int(rows[0][0])

    def progress(self, region: str, epoch: int) -> Progress:
        """How far a run has come, in one snapshot; waiting members poll it.

        Raises:
            Fenced: the run is so old that the ledger no longer retains it, or a fail-over of
                Postgres has taken it back.
        """
        rows = self._rows("progress", region=region, epoch=epoch)
        if not rows:
            found = self.epoch(region)
            if found is not None and found < epoch:
                raise EpochHasPassed(region=region, epoch=epoch, found=found)
            raise RunIsPruned(region=region, epoch=epoch)
        return Progress(*rows[0])

    def staged_bytes(self, region: str, seqs: Sequence[int]) -> int:
        """How much the jobs of these batches have staged so far, committed or not."""
        if not seqs:
            return 0
        pattern = Staging.pattern(region, "|".join(map(str, seqs)))
        return int(self._rows("staged_bytes", schema=STAGING_SCHEMA, pattern=pattern)[0][0])

    def is_being_decided(self, region: str) -> bool:
        """Whether a transaction that decides holds the region's lock, as a publish does to its end.

        One that stands still in it is ended by Postgres, and so is a statement that takes too long.
        """
        return not self._rows("lockable", region=region)

    def region_state(self, region: str) -> RegionState | None:
        """The region as it is now; None before its first open."""
        rows = self._rows("region_state", region=region)
        return regions.state(region, rows[0]) if rows else None

    def known_region(self, region: str) -> RegionState | None:
        """The region as it is now; None before its first open, or without a ledger."""
        return self.region_state(region) if self.ledger_is_there() else None

    def epoch(self, region: str) -> int | None:
        """The region's current epoch; None before its first open."""
        rows = self._rows("epoch", region=region)
        return rows[0][0] if rows else None

    def epoch_before(self, region: str) -> int:
        """The epoch that an open finds; before a first one that of a region that had the name."""
        found: int = self._rows("epoch_before", region=region)[0][0]
        return found

    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint:
        """The merged checkpoint with its epoch and seq, in one snapshot.

        That of the head; or, with `at`, the one that a rewind to that seq restores.
        """
        with autocommit(self.engine) as cursor:
            return checkpoint_at(cursor, region, at)

    def partitions(self, region: str) -> dict[TopicPartition, Partition]:
        """Every partition of the region as the ledger knows it."""
        with autocommit(self.engine) as cursor:
            return regions.partitions(cursor, region)

    def run_of(self, region: str, run_id: str) -> Run | None:
        """The newest run with this run id; None if there is none."""
        return self._run("run_of", region, run_id=run_id)

    def newest_run(self, region: str) -> Run | None:
        """The run that was opened last; None if there was none."""
        return self._run("newest_run", region)

    def run_at(self, region: str, epoch: int) -> Run | None:
        """The run of this epoch; None if it is the epoch of a reset."""
        return self._run("run_at", region, epoch=epoch)

    def other_run(self, region: str, run_id: str) -> OtherRun | None:
        """The open run of the region's epoch that has another id; None where there is none."""
        rows = self._rows("other_run", region=region, run_id=run_id)
        return OtherRun(*rows[0]) if rows else None

    def announced(self, region: str) -> tuple[int, bool]:
        """Up to which checkpoint readers were told; and whether of more, which is rewound."""
        seq, is_rewound = self._rows("announced", region=region)[0]
        return seq, is_rewound

    def used_overrides(self, region: str, run_id: str) -> dict[str, int]:
        """Overrides that earlier opens of this run have used: override -> epoch."""
        return dict(self._rows("used_overrides", region=region, run_id=run_id))

    def published_in(self, region: str, epoch: int) -> tuple[int, int, int, int]:
        """How many batches, rows, dead letters and records an epoch has published."""
        [found] = self._rows("published_in", region=region, epoch=epoch)
        return found[0], found[1], found[2], found[3]

    def target_offsets(self, region: str, epoch: int) -> Offsets:
        """Where the run of this epoch stops."""
        with autocommit(self.engine) as cursor:
            return regions.target_offsets(cursor, region, epoch)

    def unpublished_batches(
        self, region: str, owned: Collection[TopicPartition] | None = None
    ) -> tuple[Batch, ...]:
        """The unpublished batches with their claims, the lowest first.

        With `owned`, spans of other partitions may be left out.
        """
        with autocommit(self.engine) as cursor:
            return regions.unpublished_batches(cursor, region, owned)

    def unpublished_seqs(self, region: str) -> list[int]:
        """The seqs of the unpublished batches, the lowest first."""
        return [batch.seq for batch in self.unpublished_batches(region, owned=())]

    def finished_reset(self, region: str, request_id: str) -> FinishedReset | None:
        """The reset that a request has finished; None if it has not."""
        with autocommit(self.engine) as cursor:
            return rewinds.finished_reset(cursor, region, request_id)

    def unfinished_reset(self, region: str, run_id: str | None) -> int | None:
        """The epoch of this run's reset that was decided and not finished, or None."""
        rows = self._rows("unfinished_reset", region=region, run_id=run_id)
        return rows[0][0] if rows else None

    def _run(self, name: str, region: str, **values: Any) -> Run | None:
        rows = self._rows(name, region=region, **values)
        return Run(region, *rows[0]) if rows else None
