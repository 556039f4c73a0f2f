"""Verify a region: read its batches again and compare them with target, ledger and dead letters.

  1 whole     the target's rows belong to published batches; spans have no gap and no overlap
  2 retained  a batch that Kafka no longer holds completely is only counted, and so are all where a
              target is gone; the report says so
  3 again     the others are read by the same decode, transform and staging, into scratch, small
              batches in groups
  4 compare   rows and dead letters as multisets, both ways; the counts with the ledger's
Only scratch tables are written, and they are dropped at the end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidemark.admin.held import missing
from tidemark.errors import CorruptRecord, DataLost
from tidemark.ledger.queries import Published, PublishedSpan
from tidemark.model.batch import ONLY
from tidemark.model.facts import Facts, refuse_other_cluster
from tidemark.model.state import RegionState
from tidemark.postgres.transaction import transaction
from tidemark.runs.job import JobExecutor
from tidemark.runs.member import ExecutorOf
from tidemark.runs.region import Region, facts_left, region_of
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.errors import CutDeadLetterNotWhole
from tidemark.verify._comparison import (
    MEMBER,
    Begun,
    Comparison,
    counted,
    difference,
    groups,
    joined,
    with_found,
)
from tidemark.verify._scratch import Scratch, scratch_of
from tidemark.verify._whole import Whole, are_in_place, whole_of
from tidemark.verify.report import BatchProof, Difference, Kind, Report


@dataclass(frozen=True, slots=True)
class Prover:
    """Proves the batches of a region."""

    comparison: Comparison
    facts: Facts
    whole: Whole

    @property
    def region(self) -> Region:
        """Whose batches they are."""
        return self.comparison.region

    def proofs(self, batches: Iterable[Published]) -> Iterator[BatchProof]:
        """Read the batches again and compare them; only count those that can't be compared.

        A batch that differs because a prune or a rewind removed it meanwhile is left out: that
        proves nothing.
        """
        queries = self.region.ledger.queries
        for group in groups(map(self._begun, batches)):
            for proof in self._proven(group):
                if not proof.wrong or queries.is_restorable(self.region.name, proof.seq):
                    yield proof

    def _begun(self, published: Published) -> Begun:
        """The batch with what its counts say; needs no Kafka."""
        queries, seq = self.region.ledger.queries, published.seq
        if published.replayed is not None:
            return self._begun_replay(published, published.replayed)
        spans = queries.published_spans(self.region.name, seq)
        proof = BatchProof(seq, published.records, published.rows, published.dead_letters)
        proof = with_found(proof, *counted(published, spans), *self._rows_counted(published))
        unverifiable = *self.whole.unfit, *missing(spans, self.facts)
        proof = replace(proof, unverifiable=unverifiable)
        is_readable = bool(spans) and not unverifiable
        is_upsert = any(one.upsert for one in self.region.pipeline.all_targets.values())
        return Begun(
            proof=proof,
            spans=spans,
            is_readable=is_readable,
            is_upsert=is_upsert,
            is_purged=published.purged > 0,
        )

    def _begun_replay(self, published: Published, replayed: int) -> Begun:
        """The same of a replay: what it read is in the ledger."""
        queries, seq = self.region.ledger.queries, published.seq
        spans = [
            PublishedSpan(span, "", 0, 0) for span in queries.replayed_spans(self.region.name, seq)
        ]
        proof = BatchProof(seq, published.records, published.rows, 0)
        proof = with_found(proof, *self._rows_counted(published))
        proof = replace(proof, unverifiable=self.whole.unfit)
        return Begun(proof, spans, is_readable=not self.whole.unfit, replayed=replayed)

    def _rows_counted(self, published: Published) -> Iterator[Difference]:
        """Each target that has not as many rows of the batch as the ledger counted."""
        for target in self.comparison.targets:
            known = self.whole.rows[target.name].get(published.seq)
            if known is None:  # since it was chosen: what differs then proves nothing
                text = "the batch has been pruned or rewound"
                yield Difference(
                    kind=Kind.miscounted, what="ledger", seq=published.seq, where="", detail=text
                )
                continue
            there, counted = known
            who = f"{target}" if target.name != ONLY else "the target"
            yield from difference(published, "rows", counted, there, f"{who} has")

    def _proven(self, group: Sequence[Begun]) -> Iterator[BatchProof]:
        if len(group) == 1:
            yield self._alone(group[0])
        elif self._is_equal(group):
            yield from (one.proof for one in group)
        else:
            middle = len(group) // 2
            yield from self._proven(group[:middle])
            yield from self._proven(group[middle:])

    def _alone(self, one: Begun) -> BatchProof:
        if not one.is_readable:
            return one.proof
        if one.replayed is not None:
            try:
                return self.comparison.replay_compared(one, one.replayed)
            except CutDeadLetterNotWhole as error:
                return replace(one.proof, unverifiable=(str(error),))
        try:
            return self.comparison.compared(one.proof, one.proof.seq, one.spans)
        except (CorruptRecord, DataLost) as error:  # Kafka lost them after `missing` was asked
            return replace(one.proof, unverifiable=(str(error),))

    def _is_equal(self, group: Sequence[Begun]) -> bool:
        """Whether one job that reads the group proves each batch equal, see `_comparison`."""
        spans = [span for one in group for span in one.spans]
        has_transform = self.region.pipeline.transform is not None
        if has_transform and any(one.records != one.span.width for one in spans):
            return False
        if not self.comparison.executor().is_by_record():
            return False
        first, last = group[0].proof.seq, group[-1].proof.seq
        again = self.comparison.scratch.read_again(first, last, joined(spans))
        try:
            proof = self.comparison.compared(BatchProof(first, 0, 0, 0), last, joined(spans))
        except (CorruptRecord, DataLost):
            return False
        with transaction(self.region.ledger.engine, "verify") as cursor:
            return proof.verdict == "equal" and all(
                are_in_place(cursor, self.region.name, again, one, has_transform=has_transform)
                for one in self.comparison.targets
            )


Tell = Callable[[BatchProof | None, int], None]
"""Called with (None, number of batches) first, then with each proof and that number."""


def verify(
    pipeline: Pipeline,
    connections: Connections,
    *,
    executor_of: ExecutorOf,
    last: int | None = None,
    tell: Tell = lambda proof, batches: None,
) -> Report:
    """Compare every batch, or the last ones, with what Kafka still holds; return the report.

    The transform must be deterministic: the same record must give the same rows again.
    Runs may go on meanwhile: batches published after the start are not compared, and those that
    a prune or a rewind removes before they are compared are left out, with a note.

    Raises:
        Refused: the region is not in the ledger.
        SchemaMismatch: the transform returns columns that the target lacks.
    """
    with region_of(pipeline, connections) as region, scratch_of(region.ledger.engine) as scratch:
        state, as_opened = region.state(), region.with_kept_columns()
        chosen = region.ledger.queries.checkpoints(region.name, last)[::-1]
        whole = whole_of(region.ledger.engine, region.name, region.targets)
        tell(None, len(chosen))
        proofs = []
        with _executor(as_opened, executor_of) as executor:
            prover = _prover(region, scratch, state, whole, executor)
            for proof in prover.proofs(chosen):
                proofs.append(proof)
                tell(proof, len(chosen))
        return Report(
            region=region.name,
            epoch=state.epoch,
            head_seq=state.head_seq,
            batches=tuple(proofs),
            differences=whole.differences,
            wrong_beyond=whole.wrong,
            notes=(*whole.notes, *_accepted(region), *_skipped(chosen, proofs)),
        )


def _accepted(region: Region) -> Iterator[str]:
    for span, epoch in region.ledger.queries.skipped_spans(region.name):
        yield f"{span} was never read: a person accepted its loss in epoch {epoch}"


def _skipped(chosen: Sequence[Published], proofs: Sequence[BatchProof]) -> Iterator[str]:
    seqs = {one.seq for one in chosen} - {proof.seq for proof in proofs}
    if seqs:
        batches = ", ".join(map(str, sorted(seqs)))
        yield f"not compared, pruned or rewound meanwhile: batches {batches}"


@contextmanager
def _executor(region: Region, executor_of: ExecutorOf) -> Iterator[Callable[[], JobExecutor]]:
    """One executor, started when it is first asked for; closed at the end."""
    started: list[JobExecutor] = []

    def executor() -> JobExecutor:
        if not started:
            spec = region.job_spec(MEMBER)
            # whatever the file says by now: the ledger knows which records were left out
            started.append(
                executor_of(replace(spec, reading=replace(spec.reading, leaves_out=True)))
            )
        return started[0]

    try:
        yield executor
    finally:
        for one in started:
            one.close()


def _prover(
    region: Region,
    scratch: Scratch,
    state: RegionState,
    whole: Whole,
    executor: Callable[[], JobExecutor],
) -> Prover:
    topics = {partition.topic for partition in region.ledger.partitions(region.name)}
    facts = facts_left(region.broker, topics)
    if facts.topic_ids:
        refuse_other_cluster(region.name, state.cluster_id, facts)
    comparison = Comparison(region, scratch, region.targets, executor)
    return Prover(comparison, facts, whole)
