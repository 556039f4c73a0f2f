"""What an open or a reset decides under the region lock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2.extras import Json

from tidemark.ledger import regions, rewinds
from tidemark.ledger.actions import Order, write_action
from tidemark.model.deletions import UnreadSince
from tidemark.model.facts import Facts, LogEnd, SeenAtOpen
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.state import FinishedReset, Mirrored, NewReset, NewRun, Partition, RegionState
from tidemark.postgres.session import Cursor, query
from tidemark.protocol.rewind_plan import RewindPlan


@dataclass(slots=True)
class Settling:
    """One transaction that takes the region's next epoch, for a run or a reset."""

    cursor: Cursor
    state: RegionState
    _unread: regions.TimesUnread | None = None
    """As of the partitions that there are; None: not looked up."""

    @property
    def region(self) -> str:
        """The region's name."""
        return self.state.region

    def take_epoch(self, seen: Mirrored) -> int:
        """Fence everyone: take the next epoch by compare-and-set, above the one seen in Kafka."""
        self._run("take_epoch_seq", seen=max(seen.seq, seen.sent_seq))
        self._run("take_epoch", epoch=self.state.epoch, seen=seen.epoch)
        return int(self.cursor.fetchone()[0])  # type: ignore[index]

    def discard_unpublished_batches(self) -> tuple[int, ...]:
        """Discard what the epoch before has planned; return its seqs, which are never reused."""
        self._run("discard_unpublished_batches")
        found = tuple(sorted(seq for (seq,) in self.cursor.fetchall()))
        self._supersede()
        return found

    def _supersede(self) -> None:
        """Mark open runs and unfinished resets as superseded."""
        self._run("supersede_runs")
        self._run("supersede_resets")

    def partitions(self) -> dict[TopicPartition, Partition]:
        """Every partition of the region as the ledger knows it."""
        return regions.partitions(self.cursor, self.region)

    def write_initial_offsets(self, initial: Offsets, topic_ids: Mapping[str, str]) -> None:
        """Write the initial offsets of new partitions; known partitions keep theirs."""
        if not initial:
            return
        self._unread = None
        self._run(
            "write_initial_offsets",
            topics=[partition.topic for partition in initial],
            partitions=[partition.partition for partition in initial],
            topic_ids=[topic_ids[partition.topic] for partition in initial],
            offsets=list(initial.values()),
        )

    def end_histories(self, epoch: int, partitions: list[TopicPartition]) -> None:
        """End the history of these partitions: what was read stays, a new history may begin."""
        if not partitions:
            return
        self._unread = None
        self._run(
            "end_histories",
            epoch=epoch,
            topics=[partition.topic for partition in partitions],
            partitions=[partition.partition for partition in partitions],
        )

    def target_oid(self, target: str) -> int | None:
        """The OID of the table that has this name now; None if there is none."""
        return regions.target_oid(self.cursor, target)

    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]:
        """The form of the texts of each of these columns that the table of this name has now."""
        return regions.key_forms(self.cursor, target, columns)

    def unread(self) -> dict[TopicPartition, UnreadSince]:
        """How long deletions of each partition may have waited to be read.

        Looked up once, and again where a history has ended or begun since.
        """
        if self._unread is None:
            self._unread = regions.times_unread(self.cursor, self.region)
        return regions.until_now(self.cursor, self._unread)

    def write_made_with(
        self, fingerprint: Mapping[str, Any], cluster_id: str, targets: Mapping[str, str]
    ) -> None:
        """Record the fingerprint, cluster and targets of all rows from now on."""
        self._run("write_made_with", fingerprint=Json(dict(fingerprint)), cluster_id=cluster_id)
        self._run("forget_targets", targets=list(targets))
        self._write_made_into(targets)

    def _write_made_into(self, targets: Mapping[str, str]) -> None:
        tables, is_kept = list(targets.values()), bool(self.state.head_seq)
        self._run(
            "write_made_into",
            targets=list(targets),
            tables=tables,
            oids=[self.target_oid(table) if is_kept else None for table in tables],
            key_forms=[self._kept_forms(*one) if is_kept else Json({}) for one in targets.items()],
        )

    def _kept_forms(self, name: str, table: str) -> Json:
        """Of what is known of the target's key, how it is now: a person has accepted that."""
        known = self.state.targets.get(name)
        return Json(dict(self.key_forms(table, known.key_forms)) if known else {})

    def write_run(self, epoch: int, run: NewRun) -> None:
        """Write the run; `write_target_offsets` writes its target offsets."""
        bounds = run.bounds
        self._run(
            "write_run",
            epoch=epoch,
            run_id=run.run_id,
            opening=str(run.uuid),
            max_records=bounds.max_records,
            max_bytes=bounds.max_bytes,
            max_batches=bounds.max_batches,
            max_seconds=bounds.max_seconds,
            batch_seconds=bounds.seconds,
            in_flight=bounds.in_flight,
            dead_letters_max_ratio=run.limits.max_ratio,
            dead_letters_max_count=run.limits.max_count,
            backlog=run.backlog,
            overrides=list(run.overrides),
            remarks=list(run.remarks),
            asked_at=run.asked_at,
            deletions_seconds=run.deletions_seconds,
        )
        if run.overrides:
            order = Order(run.who, f"run {run.run_id}")
            given = {"epoch": epoch, "overrides": list(run.overrides)}
            write_action(self.cursor, self.region, "override", order, given)

    def log_ends(self) -> dict[TopicPartition, LogEnd]:
        """Where the logs ended when the newest run opened; empty before the first run."""
        self._run("log_ends")
        return {TopicPartition(r[0], r[1]): LogEnd(*r[2:]) for r in self.cursor.fetchall()}

    def write_target_offsets(self, epoch: int, facts: Facts, seen: SeenAtOpen) -> None:
        """Write the run's target offsets, and what the open saw of each partition."""
        targets = facts.ends
        self._run(
            "write_target_offsets",
            epoch=epoch,
            topics=[partition.topic for partition in targets],
            partitions=[partition.partition for partition in targets],
            offsets=list(targets.values()),
            high_watermarks=[facts.high_watermarks.get(tp, end) for tp, end in targets.items()],
            since=[seen.stuck.get(partition) for partition in targets],
            kept=[facts.deletions_kept(partition.topic) for partition in targets],
            accepted=[partition in seen.accepted for partition in targets],
        )

    def rewind_plan(self, to_seq: int) -> RewindPlan:
        """What a rewind to a checkpoint would remove and restore."""
        return rewinds.rewind_plan(self.cursor, self.region, to_seq)

    def finished_reset(self, request_id: str) -> FinishedReset | None:
        """The reset that this request has finished, if it has."""
        return rewinds.finished_reset(self.cursor, self.region, request_id)

    def write_reset(self, epoch: int, row: NewReset, discarded: Sequence[int]) -> None:
        """Write the audit row of a reset."""
        head = self.state.head_seq
        to_seq = head if row.to_seq is None else row.to_seq
        removal = rewinds.published_after(self.cursor, self.region, to_seq)
        self._run(
            "write_reset",
            epoch=epoch,
            kind=row.kind,
            requested_by=row.who,
            why=row.why,
            run_id=row.run_id,
            request_id=row.request_id,
            resetting=str(row.uuid),
            discarded_seqs=list(discarded),
            head_seq=head,
            to_seq=to_seq,
            rows=removal.total,
            dead_letters=removal.dead_letters,
            overrides=list(row.overrides),
        )
        if not row.is_cancelled:
            self._run("write_reset_count", by_hand=row.run_id is None)

    def _run(self, name: str, **values: object) -> None:
        self.cursor.execute(query(name), {"region": self.region, **values})
