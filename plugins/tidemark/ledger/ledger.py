"""The ledger: its deciding transactions, and the writes that need none."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from uuid import UUID

from tidemark.ledger import regions
from tidemark.ledger.deciding import Deciding
from tidemark.ledger.errors import EpochHasPassed, RegionKeepsGroup, RegionNeverOpened
from tidemark.ledger.queries import LedgerQueries
from tidemark.ledger.reader import Reader
from tidemark.ledger.regions import others_of, refuse_shared
from tidemark.ledger.settling import Settling
from tidemark.model.batch import Batch, Contribution
from tidemark.model.dead_letters import Replayed
from tidemark.model.state import RegionState
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import autocommit, transaction


class Ledger(Reader):
    """The ledger's tables, through one SQLAlchemy engine."""

    @cached_property
    def queries(self) -> LedgerQueries:
        """What people and metrics ask of it."""
        return LedgerQueries(self.engine)

    @contextmanager
    def deciding(self, region: str, epoch: int, name: str) -> Iterator[Deciding]:
        """A transaction that holds the region lock and the region's current epoch.

        Raises:
            Fenced: the region has another epoch.
        """
        with transaction(self.engine, name) as cursor:
            state = lock_region(cursor, region)
            if state.epoch != epoch:
                raise EpochHasPassed(region=region, epoch=epoch, found=state.epoch)
            yield Deciding(
                cursor=cursor,
                region=region,
                epoch=epoch,
                head_seq=state.head_seq,
                next_seq=state.next_seq,
            )

    @contextmanager
    def settling(self, region: str, name: str) -> Iterator[Settling]:
        """A transaction that holds the region lock and may take the next epoch."""
        with transaction(self.engine, name) as cursor:
            yield Settling(cursor, lock_region(cursor, region))

    def create_region(
        self, region: str, *, group_id: str, targets: Mapping[str, str], cluster_id: str
    ) -> None:
        """Make the region if it is new; `targets` are tables by their names.

        Raises:
            Refused: another region has this group or a target, or this region another group.
        """
        values = {
            "region": region,
            "group_id": group_id,
            "targets": list(targets),
            "tables": list(targets.values()),
            "cluster_id": cluster_id,
        }
        with transaction(self.engine, "region") as cursor:
            refuse_shared(region, others_of(cursor, region, group_id, targets.values()))
            cursor.execute(query("create_region"), values)
            if cursor.rowcount == 1:
                cursor.execute(query("continue_region"), values)
            cursor.execute(query("create_targets"), values)
            state = lock_region(cursor, region)
            if state.group_id != group_id:
                raise RegionKeepsGroup(region=region, group=state.group_id, asked=group_id)

    def outcome(self, batch: Batch, contribution: Contribution) -> str | None:
        """The state of a batch whose COMMIT got no answer, read under the region lock.

        Returns `published`, `contributed` (this contribution is accepted, and the batch not yet
        published), `planned`, or None if the batch was discarded.
        """
        span = contribution.reads[0].span  # all of its spans are claimed, or none
        found = self._found_under_lock(
            "outcome_of_batch",
            batch.region,
            seq=batch.seq,
            member=contribution.member,
            topic=span.topic,
            partition=span.partition,
        )
        return found[0] if found else None

    def find_settled(self, uuid: UUID, region: str) -> int | None:
        """The epoch of an open or a reset whose COMMIT got no answer; None if it did not commit."""
        found = self._found_under_lock("find_settled", region, uuid=str(uuid))
        return found[0] if found else None

    def reset_state(self, uuid: UUID, region: str) -> str | None:
        """The state of a rewind whose COMMIT got no answer, read under the region lock."""
        found = self._found_under_lock("reset_state", region, uuid=str(uuid))
        return found[0] if found else None

    def replay_outcome(self, batch: Batch) -> Replayed | None:
        """What a replay whose COMMIT got no answer has published; None if it has not.

        Read under the region lock.
        """
        found = self._found_under_lock("replay_outcome", batch.region, seq=batch.seq)
        return Replayed(batch.seq, *found) if found else None

    def register_member(self, region: str, epoch: int, uuid: UUID, name: str) -> int:
        """Register a member; return its number, which keys its staged rows and is never reused."""
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
        """Record what a member does; for display only."""
        values = {
            "member": member,
            "state": state,
            "partitions": partitions,
            "drain_ms": drain_ms,
        }
        with autocommit(self.engine) as cursor:
            cursor.execute(query("show_member"), values)

    def remark(self, region: str, epoch: int, remarks: Sequence[str]) -> None:
        """Add remarks to the run, each once; for display only."""
        if remarks:
            values = {"region": region, "epoch": epoch, "remarks": list(remarks)}
            with autocommit(self.engine) as cursor:
                cursor.execute(query("remark"), values)

    def announce(self, region: str, run_id: str, seq: int) -> None:
        """Keep with the run that readers are being told of the checkpoints up to this one."""
        self._write("announce", region, run_id=run_id, seq=seq)

    def confirm_announced(self, region: str, run_id: str) -> bool:
        """They were told, unless another epoch came between; then they will be told again."""
        return self._write("confirm_announced", region, run_id=run_id) == 1

    def told_of_rewind(self, region: str, epoch: int) -> None:
        """Readers are being told of the rewind that took this epoch."""
        self._write("told_of_rewind", region, epoch=epoch)

    def finish_reset(self, region: str, epoch: int) -> None:
        """Mark this epoch's reset, which removed nothing, as finished."""
        self._write("finish_reset", region, epoch=epoch, rows=0, dead_letters=0)

    def _write(self, name: str, region: str, **values: object) -> int:
        """Run one statement that decides nothing; return how many rows it changed."""
        with autocommit(self.engine) as cursor:
            cursor.execute(query(name), {"region": region, **values})
            return int(cursor.rowcount)

    def _found_under_lock(self, name: str, region: str, **values: object) -> tuple[Any, ...] | None:
        """Wait for the region lock, then return the row that the statement finds, if it does."""
        with transaction(self.engine, "outcome") as cursor:
            lock_region(cursor, region)
            cursor.execute(query(name), {"region": region, **values})
            found: tuple[Any, ...] | None = cursor.fetchone()
        return found


def lock_region(cursor: Cursor, region: str) -> RegionState:
    """The region, held to the end of the transaction: whoever decides waits.

    Raises:
        Refused: the ledger does not know it.
    """
    # One journey, two statements: the second one sees what the wait was for.
    cursor.execute(f"{query('lock_region')};\n{query('region_state')}", {"region": region})
    found = cursor.fetchone()
    if found is None:
        raise RegionNeverOpened(region=region)
    return regions.state(region, found)
