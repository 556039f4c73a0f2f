"""The ledger: its deciding transactions, and looks that decide nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg2.extensions import cursor as Cursor
from sqlalchemy import Engine

from tidemark.errors import Fenced, Refused
from tidemark.ledger import regions, rewinds
from tidemark.ledger.deciding import Deciding
from tidemark.ledger.rewinds import ReadAgain
from tidemark.ledger.settling import Settling
from tidemark.model.batch import Batch, Checkpoint
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.state import Partition, RegionState, Run
from tidemark.postgres.queries import query
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.protocol.reset import RewindPlan


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, as a look tells it."""

    epoch: int
    """The region's epoch; the rest holds only while it is the run's."""
    head_seq: int
    claimed: int
    """Spans of the unpublished batch that are claimed."""
    is_done: bool
    """Nothing is unpublished, and the target offsets or the run's bound are reached."""


class Ledger:
    """The Postgres tables that are the only truth, through one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @contextmanager
    def deciding(self, region: str, epoch: int, name: str) -> Iterator[Deciding]:
        """A transaction that holds the region lock and the region's current epoch.

        Raises:
            Fenced: the region has another epoch.
        """
        with transaction(self.engine, name) as cursor:
            state = _lock_region(cursor, region)
            if state.epoch != epoch:
                raise Fenced(
                    f"region {region}: epoch {epoch} has passed, the region is at {state.epoch};"
                    " another run or a reset took over, and this process may write nothing more"
                )
            yield Deciding(cursor, region, epoch, state.head_seq, state.next_seq)

    @contextmanager
    def settling(self, region: str, name: str) -> Iterator[Settling]:
        """A transaction that holds the region lock and may take the next epoch."""
        with transaction(self.engine, name) as cursor:
            yield Settling(cursor, _lock_region(cursor, region))

    def create_region(self, region: str, *, group_id: str, target: str, cluster_id: str) -> None:
        """Make the region if it is new.

        Raises:
            Refused: another region has this group or target, or this region another group.
        """
        values = {
            "region": region,
            "group_id": group_id,
            "target": target,
            "cluster_id": cluster_id,
        }
        with transaction(self.engine, "region") as cursor:
            for other, its_group, its_target in _other_region_of(cursor, values):
                raise Refused(
                    f"region {other} has consumer group {its_group!r} and target {its_target}: both"
                    f" belong to one region; give region {region} its own (kafka.group, target)"
                )
            cursor.execute(query("create_region"), values)
            state = _lock_region(cursor, region)
            if state.group_id != group_id:
                raise Refused(
                    f"region {region} has consumer group {state.group_id!r}, the pipeline says"
                    f" {group_id!r}; a region keeps it: name a new region for the change"
                )

    def outcome(self, batch: Batch, member: int) -> str | None:
        """What became of a batch whose COMMIT had no answer, looked up under the region lock.

        Returns `published`, `contributed` (by this member, not yet published), `planned`,
        or None when the batch is gone.
        """
        values = {"seq": batch.seq, "member": member}
        found: str | None = self._settled("outcome_of_batch", region=batch.region, **values)
        return found

    def find_settled(self, kind: str, uuid: UUID, region: str) -> int | None:
        """The epoch of an open or a reset whose COMMIT had no answer; None if it did not happen."""
        values = {"region": region, "uuid": str(uuid)}
        if kind == "opening":
            found: int | None = self._settled("find_settled_opening", **values)
        else:
            found = self._settled("find_settled_resetting", **values)
        return found

    def reset_state(self, uuid: UUID, region: str) -> str | None:
        """What became of a rewind whose COMMIT had no answer, looked up under the region lock."""
        found: str | None = self._settled("reset_state", region=region, uuid=str(uuid))
        return found

    def rewind_is_under_way(self, region: str) -> bool:
        """A rewind has lowered Kafka and not yet the ledger, or died in between; a look."""
        return bool(self._rows("rewind_is_under_way", region=region)[0][0])

    def target_oid(self, target: str) -> int | None:
        """The table that bears a name now, as a look."""
        with autocommit(self.engine) as cursor:
            return regions.target_oid(cursor, target)

    def rewind_plan(self, region: str, to_seq: int) -> RewindPlan:
        """What a rewind to a checkpoint would take back, as a look."""
        with autocommit(self.engine) as cursor:
            return rewinds.rewind_plan(cursor, region, to_seq)

    def read_again(self, region: str, to_seq: int) -> list[ReadAgain]:
        """What a rewind to a checkpoint reads again of each partition, as a look."""
        with autocommit(self.engine) as cursor:
            return rewinds.read_again(cursor, region, to_seq)

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
        """How far a run has come, in one snapshot: what members that wait look at.

        Raises:
            Fenced: the run passed so long ago that the ledger no longer retains it.
        """
        rows = self._rows("progress", region=region, epoch=epoch)
        if not rows:
            raise Fenced(f"region {region}: the run of epoch {epoch} has passed and is forgotten")
        return Progress(*rows[0])

    def region_state(self, region: str) -> RegionState | None:
        """The region as it is now; None before its first open."""
        rows = self._rows("region_state", region=region)
        return RegionState(region, *rows[0]) if rows else None

    def epoch(self, region: str) -> int | None:
        """The region's current epoch, as a look."""
        rows = self._rows("epoch", region=region)
        return rows[0][0] if rows else None

    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint:
        """Epoch, seq and partition -> next offset, of one snapshot.

        Of the head; or, with the seq of an older checkpoint, where a rewind to it leads.
        """
        if at is None:
            rows = self._rows("merged_checkpoint", region=region)
        else:
            with autocommit(self.engine) as cursor:
                rows = rewinds.restored_checkpoint(cursor, region, at)
        offsets = {TopicPartition(r[2], r[3]): r[4] for r in rows if r[2] is not None}
        epoch, seq = (rows[0][0], rows[0][1]) if rows else (0, 0)
        return Checkpoint(region, epoch, seq, offsets)

    def partitions(self, region: str) -> dict[TopicPartition, Partition]:
        """Every partition of the region as the ledger knows it."""
        with autocommit(self.engine) as cursor:
            return regions.partitions(cursor, region)

    def run_of(self, region: str, run_id: str) -> Run | None:
        """The newest epoch's run with this run id."""
        rows = self._rows("run_of", region=region, run_id=run_id)
        return Run(region, *rows[0]) if rows else None

    def run_at(self, region: str, epoch: int) -> Run | None:
        """The run that holds this epoch; None if a reset holds it."""
        rows = self._rows("run_at", region=region, epoch=epoch)
        return Run(region, *rows[0]) if rows else None

    def used_overrides(self, region: str, run_id: str) -> dict[str, int]:
        """Overrides that earlier opens of this run were given: override -> the epoch it went to."""
        return dict(self._rows("used_overrides", region=region, run_id=run_id))

    def target_offsets(self, region: str, epoch: int) -> Offsets:
        """Where the run of this epoch stops."""
        with autocommit(self.engine) as cursor:
            return regions.target_offsets(cursor, region, epoch)

    def register_member(self, region: str, epoch: int, uuid: UUID, name: str) -> int:
        """A member's number, which keys its staged rows and is never given twice."""
        values = {"region": region, "epoch": epoch, "uuid": str(uuid), "name": name}
        with autocommit(self.engine) as cursor:
            cursor.execute(query("register_member"), values)
            return int(cursor.fetchone()[0])  # type: ignore[index]

    def show_member(
        self,
        member: int,
        state: str,
        partitions: list[str] | None = None,
        drain_ms: int | None = None,
    ) -> None:
        """Tell the ledger what a member does, for display only."""
        values = {
            "member": member,
            "state": state,
            "partitions": partitions,
            "drain_ms": drain_ms,
        }
        with autocommit(self.engine) as cursor:
            cursor.execute(query("show_member"), values)

    def remark(self, region: str, epoch: int, remarks: Sequence[str]) -> None:
        """The run bears these remarks, each once; for display only."""
        if remarks:
            values = {"region": region, "epoch": epoch, "remarks": list(remarks)}
            with autocommit(self.engine) as cursor:
                cursor.execute(query("remark"), values)

    def unpublished_batch(self, region: str) -> Batch | None:
        """The unpublished batch with its claims, as a look: it decides nothing."""
        with autocommit(self.engine) as cursor:
            return Deciding(cursor, region, 0, 0, 0).unpublished_batch()

    def unpublished_seq(self, region: str) -> int | None:
        """The seq of the unpublished batch, as a look."""
        rows = self._rows("unpublished_seq", region=region)
        return rows[0][0] if rows else None

    def unfinished_reset(self, region: str, run_id: str | None) -> int | None:
        """The epoch of a reset of this run that was decided and not finished, as a look."""
        rows = self._rows("unfinished_reset", region=region, run_id=run_id)
        return rows[0][0] if rows else None

    def finish_reset(self, region: str, epoch: int) -> None:
        """The reset of this epoch is complete."""
        values = {"region": region, "epoch": epoch, "rows": 0, "dead_letters": 0}
        with autocommit(self.engine) as cursor:
            cursor.execute(query("finish_reset"), values)

    def _settled(self, name: str, *, region: str, **values: object) -> Any:
        """The one value of what stands once the region lock is free; None if there is none."""
        with transaction(self.engine, "outcome") as cursor:
            _lock_region(cursor, region)
            cursor.execute(query(name), {"region": region, **values})
            found = cursor.fetchone()
        return found[0] if found else None

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with autocommit(self.engine) as cursor:
            cursor.execute(query(name), values)
            return list(cursor.fetchall())


def never_opened(region: str) -> Refused:
    """What is said of a region that the ledger does not know."""
    return Refused(f"region {region} is not in the ledger: it appears with its first run")


def _other_region_of(cursor: Cursor, values: dict[str, str]) -> list[tuple[str, str, str]]:
    """Regions that have this group or this target."""
    cursor.execute(query("other_region_of"), values)
    return cursor.fetchall()


def _lock_region(cursor: Cursor, region: str) -> RegionState:
    cursor.execute(query("lock_region"), {"region": region})
    found = cursor.fetchone()
    if found is None:
        raise never_opened(region)
    return RegionState(region, *found)
