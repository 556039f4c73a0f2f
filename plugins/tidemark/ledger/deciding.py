"""What a transaction may decide under the region lock and the region's epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import cursor as Cursor

from tidemark.errors import Fenced, TargetRefused
from tidemark.ledger import regions, rewinds
from tidemark.model.batch import Batch, Contribution, Moved, PlannedSpan
from tidemark.model.bounds import Bounds
from tidemark.model.corruption import accepted_ranges
from tidemark.model.dead_letters import JUDGED_FROM, Counted, Limits, Reason
from tidemark.model.offsets import LogPosition, Offsets, Span, TopicPartition
from tidemark.model.state import Run
from tidemark.postgres.queries import query
from tidemark.protocol.publish import SpanAlreadyClaimed
from tidemark.protocol.removal import Removal


@dataclass(frozen=True, slots=True)
class Deciding:
    """One deciding transaction of one epoch; its statements stand or fall together."""

    cursor: Cursor
    region: str
    epoch: int
    head_seq: int
    next_seq: int

    def unpublished_batch(self) -> Batch | None:
        """The batch that this epoch works on; discarded with the epoch, never adopted."""
        found = self._unpublished_seq()
        if found is None:
            return None
        seq, epoch = found
        self._run("unpublished_batch_spans", seq=seq)
        spans = tuple(
            PlannedSpan(Span(*row[:4]), row[4], row[5] is not None, LogPosition.known(*row[6:]))
            for row in self.cursor.fetchall()
        )
        return Batch(self.region, epoch, seq, spans)

    def next_offsets(self) -> Offsets:
        """The merged checkpoint, under the lock."""
        found = regions.partitions(self.cursor, self.region)
        return {where: partition.next_offset for where, partition in found.items()}

    def target_offsets(self) -> Offsets:
        """Where the run stops."""
        return regions.target_offsets(self.cursor, self.region, self.epoch)

    def bound_reached(self) -> str | None:
        """The bound of the run that forbids another batch; none of time before the first."""
        found = self._one("bound_reached")
        return found[0] if found else None

    def write_bound(self, bound: str) -> None:
        """Record that the run plans no further batch, and why."""
        self._run("write_bound", bound=bound)

    def bounds(self) -> Bounds:
        """The run's bounds."""
        run = self._run_at()
        return Bounds(run.max_records, run.max_batches, run.max_seconds, run.max_bytes)

    def batches_since_reset(self) -> int | None:
        """Checkpoints since the region's newest reset; None if there never was one."""
        found = self._one("batches_since_reset")
        return found[0] if found else None

    def bytes_per_offset(self) -> dict[TopicPartition, float]:
        """What an offset of each partition weighed when it was read last."""
        self._run("bytes_per_offset")
        return {TopicPartition(topic, n): weight for topic, n, weight in self.cursor.fetchall()}

    def accepted_corrupt(self) -> tuple[Span, ...]:
        """The corrupt ranges that the run was told to leave out."""
        return accepted_ranges(self._run_at().overrides)

    def pass_over(self, span: Span) -> None:
        """The partition's history ends where the range begins, a new one begins where it ends."""
        where = {"topic": span.topic, "partition": span.partition}
        if self._run("pass_over", **where, start=span.start, end=span.end) != 1:
            raise LookupError(f"{span.topic_partition} does not stand at {span.start}")
        self._run(
            "pass_over_remark", remark=f"accepted: {span} is corrupt in Kafka and was left out"
        )

    def write_batch(self, spans: Sequence[Span]) -> Batch:
        """Write the plan under a seq of its own; it is fixed for as long as the epoch lives."""
        seq = self._give_out_seq()
        self._run("write_batch", seq=seq)
        written = self._run(
            "write_batch_spans",
            seq=seq,
            topics=[span.topic for span in spans],
            partitions=[span.partition for span in spans],
            starts=[span.start for span in spans],
            ends=[span.end for span in spans],
        )
        if written != len(spans):
            raise LookupError(f"{len(spans) - written} planned partitions are unknown")
        batch = self.unpublished_batch()
        if batch is None:
            raise LookupError(f"batch {seq} of region {self.region} was written and is not there")
        return batch

    def is_unpublished(self, batch: Batch) -> bool:
        """The batch is still the one that this epoch works on: the fence of every contribution."""
        return self._unpublished_seq() == (batch.seq, self.epoch)

    def claim(self, batch: Batch, contribution: Contribution) -> None:
        """Claim all spans of the contribution, or none.

        Raises:
            SpanAlreadyClaimed: another contribution was accepted for one of them.
        """
        reads = contribution.reads
        claimed = self._run(
            "claim_spans",
            seq=batch.seq,
            contribution=self._write_contribution(batch, contribution),
            topics=[read.span.topic for read in reads],
            partitions=[read.span.partition for read in reads],
            starts=[read.span.start for read in reads],
            ends=[read.span.end for read in reads],
            attempts=[read.attempt for read in reads],
            records=[read.records for read in reads],
            dead_letters=[read.dead_letters for read in reads],
            bytes=[read.bytes for read in reads],
            record_ends=[read.record_end for read in reads],
            leader_epochs=[read.leader_epoch for read in reads],
        )
        if claimed != len(reads):
            raise SpanAlreadyClaimed(f"batch {batch.seq}: another contribution was accepted")

    def _write_contribution(self, batch: Batch, contribution: Contribution) -> int:
        return self._number(
            "write_contribution",
            seq=batch.seq,
            member=contribution.member,
            attempts=[winner.attempt for winner in contribution.winners],
            rows=contribution.rows,
        )

    def unclaimed_spans(self, batch: Batch) -> int:
        """Spans that nobody has contributed yet."""
        return self._number("unclaimed_spans", seq=batch.seq)

    def winners(self, batch: Batch) -> list[tuple[int, int]]:
        """(member, attempt) of the staged rows that count, over all members."""
        self._run("winners", seq=batch.seq)
        return list(self.cursor.fetchall())

    def reads_that_count(self, batch: Batch) -> list[tuple[int, int, str, int]]:
        """(member, attempt, topic, partition) of the reads whose dead letters count."""
        self._run("reads_that_count", seq=batch.seq)
        return list(self.cursor.fetchall())

    def advance_partitions(self, batch: Batch) -> None:
        """Move every partition from its span's start to its end; the server raises otherwise."""
        self._run("advance_partitions", seq=batch.seq)

    def count_dead_letters(self, batch: Batch) -> Counted:
        """What the batch's claimed spans counted, over all members, beside the run's limits."""
        self._run("count_dead_letters", seq=batch.seq, judged_from=JUDGED_FROM)
        own, letters, before, letters_before, *limits = self.cursor.fetchone()  # type: ignore[misc]
        return Counted(own, letters, before, letters_before, Limits(*limits))

    def commonest_reasons(self, batch: Batch) -> list[Reason]:
        """Why records of the batch became dead letters, as far as they were moved."""
        self._run("commonest_reasons", seq=batch.seq)
        return [Reason(*row) for row in self.cursor.fetchall()]

    def publish_batch(self, batch: Batch, moved: Moved, dead_letters_moved: int) -> int:
        """Write the counts, which named constraints compare; return the records of the batch."""
        return self._number(
            "publish_batch",
            seq=batch.seq,
            rows_moved=moved.rows,
            rows_refused=moved.refused_rows,
            records_refused=moved.refused_records,
            dead_letters_moved=dead_letters_moved,
        )

    def advance_head(self, batch: Batch) -> int:
        """Make the batch the region's head; returns how many rows that touched: one."""
        return self._run("advance_head", seq=batch.seq)

    def published(self) -> tuple[int, int, int, int]:
        """Batches, rows, dead letters and records that this epoch has published."""
        self._run("published_in")
        return self.cursor.fetchone()  # type: ignore[return-value]

    def close_run(self, state: str, reason: str | None) -> None:
        """The ledger's word on how the run ended."""
        self._run("close_run", state=state, reason=reason)

    def contributed_rows(self, batch: Batch) -> int:
        """Rows that the batch's contributions have staged, as they counted them."""
        return self._number("contributed_rows", seq=batch.seq)

    def keep_target(self, schema: str, table: str) -> None:
        """The table that bears this name is the one that the region has always published to.

        Asked after its rows were inserted or deleted: the lock of that holds the name still.

        Raises:
            TargetRefused: it is another one.
        """
        if self._run("keep_target", schema=schema, table=table) != 1:
            raise TargetRefused(
                f"region {self.region}: {schema}.{table} is not the table that the region has"
                " published to: it was renamed, made anew or restored under the same name. Nothing"
                " of this was done. Put the table back, or open the next run with --accept-changes:"
                " rows from then on go to the table that bears the name"
            )

    def published_after(self, seq: int) -> Removal:
        """What a rewind to a seq has to remove."""
        return rewinds.published_after(self.cursor, self.region, seq)

    def rewind(self, to_seq: int) -> int:
        """Take the ledger back to a checkpoint; return how many dead letters went.

        Raises:
            Fenced: the region's row was not this epoch's.
        """
        dead_letters = self._run("rewind_dead_letters", seq=to_seq)
        self._run("rewind_spans", seq=to_seq)
        self._run("rewind_batches", seq=to_seq)
        self._run("rewind_partitions", seq=to_seq)
        if self._run("rewind_head", seq=to_seq) != 1:
            raise Fenced(f"region {self.region}: {to_seq} can't become the head")
        return dead_letters

    def finish_reset(self, removed: Removal) -> None:
        """The reset of this epoch is complete; the server raises if it removed something else."""
        self._run("finish_reset", rows=removed.rows, dead_letters=removed.dead_letters)

    def prune(self, retain: int, step: int) -> bool:
        """Delete what lies before the newest `retain` checkpoints, but no partition's boundary.

        Of checkpoints, runs and members at most `step` each; whether there may be more to delete.
        """
        last, up_to = self._one("prune_up_to", retain=retain, step=step) or (0, 0)
        oldest = up_to or last
        self._run("prune_spans", oldest=oldest)
        self._run("prune_contributions", oldest=oldest)
        self._run("prune_batches", oldest=oldest)
        runs = self._run("prune_runs", oldest=oldest, retain=retain, step=step)
        members = self._run("prune_members", retain=retain, step=step)
        self._run("prune_oldest_seq", oldest=oldest)
        return bool(oldest < last or step in (runs, members))

    def _unpublished_seq(self) -> tuple[int, int] | None:
        """Seq and epoch of the unpublished batch."""
        found = self._one("unpublished_seq")
        return (found[0], found[1]) if found else None

    def _give_out_seq(self) -> int:
        return self._number("give_out_seq")

    def _run_at(self) -> Run:
        """The run that holds this epoch."""
        return Run(self.region, *(self._one("run_at") or ()))

    def _run(self, name: str, **values: object) -> int:
        """The rows that the statement touched, or found."""
        self.cursor.execute(query(name), {"region": self.region, "epoch": self.epoch, **values})
        return self.cursor.rowcount

    def _one(self, name: str, **values: object) -> tuple[Any, ...] | None:
        self._run(name, **values)
        return self.cursor.fetchone()

    def _number(self, name: str, **values: object) -> int:
        return int((self._one(name, **values) or ())[0])
