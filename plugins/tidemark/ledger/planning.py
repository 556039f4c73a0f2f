"""What a transaction decides about the run's next batch."""

from collections.abc import Collection, Sequence

from tidemark.ledger import regions
from tidemark.ledger.decision import Decision
from tidemark.model.batch import Batch, PlannedSpan
from tidemark.model.bounds import Bounds
from tidemark.model.corruption import accepted_ranges
from tidemark.model.offsets import LogPosition, Offsets, Span, TopicPartition
from tidemark.model.state import Run


class Planning(Decision):
    """The plan: where the run stands, where it stops, and the spans of its next batch."""

    __slots__ = ()

    def unpublished_batches(
        self, owned: Collection[TopicPartition] | None = None
    ) -> tuple[Batch, ...]:
        """The batches that this epoch works on, the lowest first; a later epoch discards them.

        With `owned`, spans of other partitions may be left out.
        """
        return tuple(
            Batch(
                self.region,
                epoch,
                seq,
                self._unpublished_batch_spans(seq, owned),
                size,
                is_complete,
            )
            for seq, epoch, size, is_complete in self._unpublished()
        )

    def _unpublished_batch_spans(
        self, seq: int, owned: Collection[TopicPartition] | None = None
    ) -> tuple[PlannedSpan, ...]:
        self._run(
            "unpublished_batch_spans",
            seq=seq,
            topics=None if owned is None else list({one.topic for one in owned}),
            partitions=None if owned is None else list({one.partition for one in owned}),
        )
        return tuple(
            PlannedSpan(Span(*row[:4]), row[4], row[5] is not None, LogPosition.known(*row[6:]))
            for row in self.cursor.fetchall()
        )

    def next_offsets(self) -> Offsets:
        """The merged checkpoint, under the lock."""
        found = regions.partitions(self.cursor, self.region)
        return {where: partition.next_offset for where, partition in found.items()}

    def target_offsets(self) -> Offsets:
        """Where the run stops."""
        return regions.target_offsets(self.cursor, self.region, self.epoch)

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
            run.max_records, run.max_batches, run.max_seconds, run.max_bytes, run.in_flight
        )

    def batches_since_reset(self) -> int | None:
        """Checkpoints since the region's newest reset; None if there never was one."""
        found = self._one("batches_since_reset")
        return found[0] if found else None

    def bytes_per_offset(self) -> dict[TopicPartition, float]:
        """Bytes per offset of each partition, as measured when it was read last."""
        self._run("bytes_per_offset")
        return {TopicPartition(topic, n): weight for topic, n, weight in self.cursor.fetchall()}

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

    def write_batch(self, spans: Sequence[Span]) -> Batch:
        """Write the plan under a new seq; it does not change within the epoch."""
        seq = self._give_out_seq()
        if self._run("write_batch", seq=seq, spans=len(spans)) != 1:
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
        return Batch(self.region, self.epoch, seq, self._unpublished_batch_spans(seq), len(spans))

    def _run_at(self) -> Run:
        """The run that holds this epoch."""
        return Run(self.region, *(self._one("run_at") or ()))
