"""Verify a region: read its batches again and compare them with target, ledger and dead letters.

  1 whole     the target's rows belong to published batches; spans have no gap and no overlap
  2 retained  a batch that Kafka no longer holds completely is only counted, and the report says so
  3 again     the others are read by the same decode, transform and staging, into scratch, small
              batches in groups
  4 compare   rows and dead letters as multisets, both ways; the counts with the ledger's
Only scratch tables are written, and they are dropped at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tidemark.ledger.looks import Looks, Published
from tidemark.member.job import JobExecutor
from tidemark.model.facts import check_cluster
from tidemark.model.state import RegionState
from tidemark.operations.drain import ExecutorOf
from tidemark.operations.region import Connections, Region, facts_left, region_of
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.target import Target
from tidemark.verify.comparison import MEMBER, Comparison
from tidemark.verify.proof import Prover
from tidemark.verify.report import BatchProof, Report
from tidemark.verify.scratch import Scratch, scratch_of
from tidemark.verify.whole import Whole, whole_of

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
        state, made_with = region.state(), region.with_kept_columns().pipeline
        chosen = Looks(region.ledger.engine).checkpoints(region.name, last)[::-1]
        whole = whole_of(region.ledger.engine, region.name, targets_of(pipeline))
        tell(None, len(chosen))
        proofs = []
        with _executor(made_with, connections, executor_of) as executor:
            prover = _prover(region, scratch, state, whole, executor)
            for proof in prover.proofs(chosen):
                proofs.append(proof)
                tell(proof, len(chosen))
        return Report(
            region.name,
            state.epoch,
            state.head_seq,
            tuple(proofs),
            whole.differences,
            whole.wrong,
            (*whole.notes, *_accepted(region), *_left_out(chosen, proofs)),
        )


def _accepted(region: Region) -> Iterator[str]:
    for span, epoch in Looks(region.ledger.engine).left_out(region.name):
        yield f"{span} was never read: a person accepted its loss in epoch {epoch}"


def _left_out(chosen: Sequence[Published], proofs: Sequence[BatchProof]) -> Iterator[str]:
    seqs = {one.seq for one in chosen} - {proof.seq for proof in proofs}
    if seqs:
        batches = ", ".join(map(str, sorted(seqs)))
        yield f"not compared, pruned or rewound meanwhile: batches {batches}"


@contextmanager
def _executor(
    pipeline: Pipeline, connections: Connections, executor_of: ExecutorOf
) -> Iterator[Callable[[], JobExecutor]]:
    """One executor, started when it is first asked for; closed at the end."""
    started: list[JobExecutor] = []

    def executor() -> JobExecutor:
        if not started:
            started.append(executor_of(pipeline, connections, MEMBER))
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
        check_cluster(region.name, state.cluster_id, facts)
    comparison = Comparison(region, scratch, targets_of(region.pipeline), executor)
    return Prover(comparison, facts, whole)


def targets_of(pipeline: Pipeline) -> tuple[Target, ...]:
    """The tables that are compared."""
    return tuple(Target.parse(table, name) for name, table in pipeline.tables.items())
