"""A deciding transaction: all changes that it may make under the region lock and the epoch.

The run's next batch; claims on unpublished batches, and the publish; a replay of dead letters, its
plan and its publish.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from psycopg2.extras import Json

from tidemark.ledger import regions, rewinds
from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.errors import (
    CheckpointNotRestored,
    KeyTextsChanged,
    TableIsAnother,
)
from tidemark.ledger.kept_dead_letters import of_filter
from tidemark.model.batch import Batch, Contribution, Moved, PlannedSpan, Removal, SpanRead, Stored
from tidemark.model.corruption import accepted_ranges
from tidemark.model.dead_letters import JUDGED_FROM, CommonReason, Counted, DeadLetterFilter, Limits
from tidemark.model.deletions import UnreadSince
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.plan import MOST_SIZES, BatchSize, BatchSizes, Bounds, SizeTaken
from tidemark.model.state import Run
from tidemark.postgres.session import Cursor, configure, query
from tidemark.protocol.errors import SpanAlreadyClaimed


@dataclass(frozen=True, slots=True)
class Decision:
    """One deciding transaction of one epoch: all of its statements take effect, or none."""

    cursor: Cursor
    region: str
    epoch: int
    head_seq: int
    next_seq: int
    locked_at: float = field(default_factory=time.monotonic)
    """Since when it holds the region's lock, by the clock of this process."""

    def _give_out_seq(self) -> int:
        return self._number("give_out_seq")

    def _write_contribution(self, batch: Batch, contribution: Contribution) -> int:
        return self._number(
            "write_contribution",
            seq=batch.seq,
            member=contribution.member,
            attempts=[winner.attempt for winner in contribution.winners],
            targets=list(contribution.rows),
            rows=list(contribution.rows.values()),
            seconds=contribution.seconds,
        )

    def _write_moved(self, batch: Batch, moved: Mapping[str, Moved]) -> None:
        rows = [{"target": name, **asdict(one)} for name, one in moved.items()]
        self._run("write_moved", seq=batch.seq, moved=Json(rows))

    def _run(self, name: str, **values: object) -> int:
        """Run a statement; return the number of rows that it changed or found."""
        self.cursor.execute(query(name), {"region": self.region, "epoch": self.epoch, **values})
        return self.cursor.rowcount

    def _one(self, name: str, **values: object) -> tuple[Any, ...] | None:
        self._run(name, **values)
        return self.cursor.fetchone()

    def _number(self, name: str, **values: object) -> int:
        return int(self._one(name, **values)[0])  # type: ignore[index]


def counts_of(reads: Sequence[SpanRead]) -> dict[str, list[Any]]:
    """What the reads found, an array for each column of their spans."""
    return {
        "topics": [read.span.topic for read in reads],
        "partitions": [read.span.partition for read in reads],
        "starts": [read.span.start for read in reads],
        "ends": [read.span.end for read in reads],
        "attempts": [read.attempt for read in reads],
        "records": [read.records for read in reads],
        "dead_letters": [read.dead_letters for read in reads],
        "bytes": [read.bytes for read in reads],
    }


class Planning(Decision):
    """The plan: where the run stands, where it stops, and the spans of its next batch."""

    __slots__ = ()

    def unpublished_batches(
        self, owned: Collection[TopicPartition] | None = None
    ) -> tuple[Batch, ...]:
        """The batches that this epoch works on, the lowest first; a later epoch discards them.

        With `owned`, spans of other partitions may be left out.
        """
        return regions.unpublished_batches(self.cursor, self.region, owned)

    def next_offsets(self) -> Offsets:
        """The merged checkpoint, under the lock."""
        found = regions.partitions(self.cursor, self.region)
        return {where: partition.next_offset for where, partition in found.items()}

    def target_offsets(self) -> Offsets:
        """Where the run stops."""
        return regions.target_offsets(self.cursor, self.region, self.epoch)

    def deletions_are_due(self) -> bool:
        """Whether compaction may take deletions by now that the run has yet to read."""
        return bool(self._one("deletions_are_due")[0])  # type: ignore[index]

    def unread(self) -> dict[TopicPartition, UnreadSince]:
        """How long deletions of each partition may have waited to be read."""
        return regions.unread(self.cursor, self.region)

    def bound_reached(self) -> str | None:
        """The run's bound that is reached, or None; a time bound counts after the first batch."""
        found = self._one("bound_reached")
        return found[0] if found else None

    def write_bound(self, bound: str) -> None:
        """Record that the run plans no further batch, and why."""
        self._run("write_bound", bound=bound)

    def bounds(self) -> Bounds:
        """The run's bounds."""
        run = self._run_at()
        return Bounds(
            max_records=run.max_records,
            max_batches=run.max_batches,
            max_seconds=run.max_seconds,
            max_bytes=run.max_bytes,
            seconds=run.batch_seconds,
            in_flight=run.in_flight,
        )

    def batches_since_reset(self) -> int | None:
        """Checkpoints since the region's newest reset; None if there never was one."""
        found = self._one("batches_since_reset")
        return found[0] if found else None

    def bytes_per_offset(self) -> dict[TopicPartition, float]:
        """Bytes per offset of each partition, as measured when it was read last."""
        self._run("bytes_per_offset")
        return {TopicPartition(topic, n): weight for topic, n, weight in self.cursor.fetchall()}

    def newest_sizes(self) -> BatchSizes:
        """How large the region's newest batches are that time bounded, and how long they took."""
        self._run("newest_sizes", most=MOST_SIZES)
        return BatchSizes.of(SizeTaken(*row) for row in self.cursor.fetchall())

    def accepted_corrupt(self) -> tuple[Span, ...]:
        """The corrupt ranges that a person allowed this run to skip."""
        return accepted_ranges(self._run_at().overrides)

    def pass_over(self, span: Span) -> None:
        """Skip a corrupt range: the partition's history ends before it, a new one follows it."""
        where = {"topic": span.topic, "partition": span.partition}
        if self._run("pass_over", **where, start=span.start, end=span.end) != 1:
            raise LookupError(f"{span.topic_partition} does not stand at {span.start}")
        self._run(
            "pass_over_remark", remark=f"accepted: {span} is corrupt in Kafka and was left out"
        )

    def write_batch(self, spans: Sequence[Span], size: BatchSize) -> Batch:
        """Write the plan under a new seq; it does not change within the epoch."""
        seq = self._give_out_seq()
        batches = self._run(
            "write_batch",
            seq=seq,
            spans=len(spans),
            offsets=size.offsets,
            most=size.most,
            sized_by=str(size.by),
        )
        if batches != 1:
            raise LookupError(f"no run of region {self.region} has epoch {self.epoch}")
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
        return Batch(
            region=self.region,
            epoch=self.epoch,
            seq=seq,
            spans=regions.unpublished_spans(self.cursor, self.region, seq),
            size=len(spans),
        )

    def _run_at(self) -> Run:
        """The run that holds this epoch."""
        return Run(self.region, *(self._one("run_at") or ()))


class Publishing(Decision):
    """Claims on unpublished batches, and their publish."""

    __slots__ = ()

    def is_unpublished(self, batch: Batch) -> bool:
        """Whether this epoch still works on the batch; this check fences every contribution."""
        found = regions.unpublished(self.cursor, self.region)
        return any(one[:2] == (batch.seq, self.epoch) for one in found)

    def is_due(self, batch: Batch) -> bool:
        """Whether all spans are claimed, and no other batch has to be published before this one."""
        seq, epoch, _, is_complete = regions.unpublished(self.cursor, self.region)[0]
        return (seq, epoch) == (batch.seq, self.epoch) and is_complete

    def claim(self, batch: Batch, contribution: Contribution) -> None:
        """Claim all spans of the contribution, or none.

        Raises:
            SpanAlreadyClaimed: another contribution has claimed one of them.
        """
        number = self._write_contribution(batch, contribution)
        # Each span's foreign key looks the contribution up: while there are few, Postgres would
        # read them all for every span, and go on so in this session when they are many.
        configure(self.cursor, {"enable_seqscan": "off"}, is_local=True)
        claimed = self._claim_spans(batch, number, contribution.reads)
        configure(self.cursor, {"enable_seqscan": "on"}, is_local=True)
        if claimed != len(contribution.reads):
            raise SpanAlreadyClaimed(seq=batch.seq)
        self._run("claim_count", seq=batch.seq, claimed=claimed)

    def _claim_spans(self, batch: Batch, contribution: int, reads: Sequence[SpanRead]) -> int:
        return self._run(
            "claim_spans",
            seq=batch.seq,
            contribution=contribution,
            **counts_of(reads),
            record_ends=[read.record_end for read in reads],
            leader_epochs=[read.leader_epoch for read in reads],
        )

    def winners(self, batch: Batch) -> list[tuple[int, int]]:
        """(member, attempt) of the winning task attempts of all members."""
        self._run("winners", seq=batch.seq)
        return list(self.cursor.fetchall())

    def contributed_rows(self, batch: Batch, target: str) -> int:
        """The number of a target's staged rows, as the batch's contributions counted them."""
        return self._number("contributed_rows", seq=batch.seq, target=target)

    def advance_partitions(self, batch: Batch) -> None:
        """Advance each partition from its span's start to its end; else the server raises."""
        self._run("advance_partitions", seq=batch.seq)

    def count_dead_letters(self, batch: Batch) -> Counted:
        """The counts of the batch's claimed spans, of all members, with the run's limits."""
        self._run("count_dead_letters", seq=batch.seq, judged_from=JUDGED_FROM)
        own, dead_letters, before, dead_letters_before, *limits = self.cursor.fetchone()  # type: ignore[misc]
        return Counted(
            records=own,
            dead_letters=dead_letters,
            records_before=before,
            dead_letters_before=dead_letters_before,
            limits=Limits(*limits),
        )

    def commonest_reasons(self, batch: Batch) -> list[CommonReason]:
        """The commonest reasons of the batch's dead letters that were moved."""
        self._run("commonest_reasons", seq=batch.seq)
        return [CommonReason(*row) for row in self.cursor.fetchall()]

    def publish_batch(
        self, batch: Batch, moved: Mapping[str, Moved], dead_letters_moved: int
    ) -> int:
        """Publish with these counts, which named constraints check; return the batch's records.

        `moved` is by target. One that is missing, though rows of it were contributed, is refused.
        """
        self._write_moved(batch, moved)
        return self._number(
            "publish_batch",
            seq=batch.seq,
            records_refused=sum(one.refused_records for one in moved.values()),
            dead_letters_moved=dead_letters_moved,
            publish_seconds=time.monotonic() - self.locked_at,
        )

    def keep_target(self, target: str, schema: str, table: str) -> None:
        """Check that this name still is the table that the target's rows have always gone to.

        Call it after rows were inserted or deleted: their lock keeps the table from being renamed.

        Raises:
            TargetRefused: it is another table.
        """
        if self._run("keep_target", target=target, schema=schema, table=table) != 1:
            raise TableIsAnother(region=self.region, table=f"{schema}.{table}")

    def keep_key(self, target: str, table: str, forms: Mapping[str, str]) -> None:
        """Check that the values of a key still have the texts by which the ledger knows them.

        Call it after rows were written: their lock keeps the columns' types.

        Raises:
            TargetRefused: a column of the key has another type, of which texts differ.
        """
        if self._run("keep_key", target=target, forms=Json(dict(forms))) != 1:
            raise KeyTextsChanged(region=self.region, table=table, found=dict(forms))

    def advance_head(self, batch: Batch) -> int:
        """Make the batch the region's head; return the number of changed rows, which must be 1."""
        return self._run("advance_head", seq=batch.seq)


class Replaying(Decision):
    """A replay: the dead letters that it has chosen, and what became of them."""

    __slots__ = ()

    def write_replay(self, meant: DeadLetterFilter, limit: int) -> Batch | None:
        """Choose dead letters, the oldest histories first, for a batch that follows the head.

        None, and nothing is written, where none is meant.
        """
        seq = self._give_out_seq()
        self._run("write_replay_dead_letters", seq=seq, limit=limit, **of_filter(meant))
        found = self.cursor.fetchall()
        if not found:
            return None
        self._run("write_replay_batch", seq=seq, records=sum(row[4] for row in found))
        spans = tuple(PlannedSpan(Span(*row[:4]), "") for row in found)
        stored = Stored(self.region, seq)
        return Batch(
            region=self.region,
            epoch=self.epoch,
            seq=seq,
            spans=spans,
            size=len(spans),
            stored=stored,
        )

    def mark_replayed(self, batch: Batch) -> int:
        """Mark what is left of the chosen dead letters as replayed; return how many."""
        return self._run("mark_replayed", seq=batch.seq)

    def publish_replay(
        self,
        batch: Batch,
        contribution: Contribution,
        moved: Mapping[str, Moved],
        replayed: int,
        kept: int,
    ) -> int:
        """Publish with these counts, which named constraints check; return how many batches.

        The batches that the dead letters came with count those that were replayed.
        """
        self._write_moved(batch, moved)
        published = self._run(
            "publish_replay",
            seq=batch.seq,
            dead_letters=contribution.dead_letters,
            replayed=replayed,
            kept=kept,
        )
        self._run("publish_replay_counts", seq=batch.seq)
        return published

    def write_contribution(self, batch: Batch, contribution: Contribution) -> None:
        """Write which staged rows count: those of the winning attempts."""
        self._write_contribution(batch, contribution)


class Deciding(Planning, Publishing, Replaying):
    """All changes that an epoch may make: plan, publish, close, rewind, replay and prune."""

    __slots__ = ()

    def published(self) -> tuple[int, int, int, int]:
        """Return how many batches, rows, dead letters and records this epoch has published."""
        self._run("published_in")
        return self.cursor.fetchone()  # type: ignore[return-value]

    def close_run(self, state: str, reason: str | None) -> None:
        """Record the run's final state and the reason."""
        self._run("close_run", state=state, reason=reason)

    def published_after(self, seq: int) -> Removal:
        """What a rewind to a seq must remove."""
        return rewinds.published_after(self.cursor, self.region, seq)

    def rewind(self, to_seq: int) -> tuple[int, int]:
        """Restore the ledger to a checkpoint.

        Returns how many dead letters were deleted, and how many replays were taken back.

        Raises:
            Fenced: the region has another epoch.
        """
        replays = self._number("rewind_replays", seq=to_seq)
        dead_letters = self._run("rewind_dead_letters", seq=to_seq)
        self._run("rewind_spans", seq=to_seq)
        self._run("rewind_batches", seq=to_seq)
        self._run("rewind_partitions")
        self._run("forget_pruned_rows", seq=to_seq)
        if self._run("rewind_head", seq=to_seq) != 1:
            raise CheckpointNotRestored(region=self.region, seq=to_seq)
        self._run("rewind_periods")
        return dead_letters, replays

    def finish_reset(self, removed: Removal) -> None:
        """Mark this epoch's reset as finished; a constraint refuses other counts than planned."""
        self._run("finish_reset", rows=removed.total, dead_letters=removed.dead_letters)

    def abandon_reset(self) -> None:
        """Mark this epoch's reset as abandoned: it changed nothing."""
        self._run("abandon_reset")

    def withhold(self, seq: int, sent_seq: int, who: str, why: str) -> bool:
        """The lowest batch after the one that was sent is never sent; False if it is another."""
        is_lowest = self._run("withhold", seq=seq, sent_seq=sent_seq) == 1
        if is_lowest:
            write_action(self.cursor, self.region, "withhold", Order(who, why), {"seq": seq})
        return is_lowest

    def prune(self, retain: int, step: int) -> bool:
        """Delete what is older than the newest `retain` checkpoints; True if more may be left.

        Keeps each partition's newest boundary. Deletes at most `step` checkpoints, `step` runs
        and `step` members.
        """
        last, up_to = self._one("prune_up_to", retain=retain, step=step) or (0, 0)
        oldest = up_to or last
        self._run("prune_spans", oldest=oldest)
        self._run("prune_contributions", oldest=oldest)
        self._run("prune_undo_columns", oldest=oldest)
        runs = self._run("prune_runs", oldest=oldest, retain=retain, step=step)
        members = self._run("prune_members", retain=retain, step=step)
        self._run("prune_oldest_seq", oldest=oldest)
        return bool(oldest < last or step in (runs, members))

    def sweep_undo(self, rows: int) -> bool:
        """Delete so many rows of undo that no rewind can need; True if more may be left."""
        return self._run("sweep_undo", rows=rows) == rows

    def sweep_batches(self, rows: int) -> bool:
        """Delete so many batches of pruned checkpoints; True if more may be left.

        A batch that has dead letters, or a partition's newest boundary, stays.
        """
        return self._run("sweep_batches", rows=rows) == rows
