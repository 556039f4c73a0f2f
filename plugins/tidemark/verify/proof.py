"""The proof of batches: spans are read again; rows, dead letters and counts are compared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import CorruptRecord, DataLost
from tidemark.ledger.looks import Looks, Published, PublishedSpan
from tidemark.member.job import JobExecutor
from tidemark.model.batch import Attempt, Batch, SpanRead
from tidemark.model.facts import Facts
from tidemark.model.incomplete_read import refuse_unread
from tidemark.operations.region import Region
from tidemark.postgres.transaction import transaction
from tidemark.staging import tables
from tidemark.staging.column import Column
from tidemark.staging.columns import columns_of
from tidemark.staging.reads import complete_reads
from tidemark.staging.target import Target
from tidemark.verify.group import Begun, groups, joined
from tidemark.verify.multiset import Multisets
from tidemark.verify.places import are_in_place
from tidemark.verify.report import BatchProof, Difference, Kind
from tidemark.verify.retained import compacted, missing
from tidemark.verify.rows import letters_of, purged_of, refused_of, rows_of
from tidemark.verify.scratch import Again, Scratch
from tidemark.verify.upserts import upserts_of
from tidemark.verify.whole import Whole

MEMBER = 0
"""Keys the scratch rows; no member of a run has this number."""

Spans = Sequence[PublishedSpan]


@dataclass(frozen=True, slots=True)
class Prover:
    """Proves the batches of a region."""

    region: Region
    scratch: Scratch
    target: Target
    facts: Facts
    whole: Whole
    executor: Callable[[], JobExecutor]
    """Starts the executor when it is first called."""

    def proofs(self, batches: Iterable[Published]) -> Iterator[BatchProof]:
        """Read the batches again and compare them; only count those whose records Kafka lacks.

        A batch that differs because a prune or a rewind removed it meanwhile is left out: that
        proves nothing.
        """
        looks = Looks(self.region.ledger.engine)
        for group in groups(map(self._begun, batches)):
            for proof in self._proven(group):
                if not proof.wrong or looks.is_restorable(self.region.name, proof.seq):
                    yield proof

    def _begun(self, published: Published) -> Begun:
        """The batch with what its counts say; needs no Kafka."""
        looks, seq = Looks(self.region.ledger.engine), published.seq
        spans = looks.published_spans(self.region.name, seq)
        proof = BatchProof(seq, published.records, published.rows, published.dead_letters)
        proof = _with(proof, *_counted(published, spans, self.whole.rows.get(seq)))
        proof = replace(proof, unverifiable=tuple(missing(spans, self.facts)))
        is_readable = bool(spans) and self.whole.is_comparable and not proof.unverifiable
        is_upsert = self.region.pipeline.target.upsert is not None
        return Begun(proof, spans, is_readable, is_upsert, published.purged > 0)

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
        again = self.scratch.again(one.proof.seq, one.proof.seq, one.spans)
        try:
            return self._compared(one.proof, again, one.spans)
        except (CorruptRecord, DataLost) as error:  # Kafka lost them after `missing` was asked
            return replace(one.proof, unverifiable=(str(error),))

    def _is_equal(self, group: Sequence[Begun]) -> bool:
        """Whether reading the group by one job proves each of its batches equal, see group.py."""
        spans = [span for one in group for span in one.spans]
        has_transform = self.region.pipeline.transform is not None
        if has_transform and any(one.records != one.span.width for one in spans):
            return False
        if not self.executor().is_by_record():
            return False
        again = self.scratch.again(group[0].proof.seq, group[-1].proof.seq, joined(spans))
        try:
            proof = self._compared(BatchProof(again.first, 0, 0, 0), again, joined(spans))
        except (CorruptRecord, DataLost):
            return False
        with transaction(self.region.ledger.engine, "verify") as cursor:
            return proof.verdict == "equal" and are_in_place(
                cursor, self.region.name, again, self.target, has_transform=has_transform
            )

    def _compared(self, proof: BatchProof, again: Again, spans: Spans) -> BatchProof:
        batch, executor = again.batch, self.executor()
        columns = columns_of(executor.output_schema())
        with transaction(self.region.ledger.engine, "scratch") as cursor:
            tables.create(cursor, batch.staging, columns)
        winners = executor.drain(batch, [one.span for one in spans])
        reads = self._reads(batch, spans)
        gone = tuple(compacted(self.region.kafka, spans, reads))
        with transaction(self.region.ledger.engine, "verify") as cursor:
            for found in filter(None, self._rows(cursor, again, columns, winners)):
                wrong, first = found.differences(cursor, batch.seq, is_whole=not gone)
                proof = _with(proof, *first, wrong=wrong)
            wrong, first = self._letters(cursor, again, reads, is_whole=not gone)
            proof = _with(proof, *first, wrong=wrong)
            tables.drop(cursor, batch.staging)
            cursor.execute(sql.SQL("DROP TABLE {}").format(again.expected.identifier))
        if gone:
            return replace(proof, unverifiable=gone)
        return _with(proof, *_miscounted(spans, reads))

    def _rows(
        self,
        cursor: Cursor,
        again: Again,
        columns: Sequence[Column],
        winners: Sequence[Attempt],
    ) -> Iterator[Multisets | None]:
        """What became of the rows that were read again, as the target's mode says."""
        upsert, name = self.region.pipeline.target.upsert, self.region.name
        if upsert:
            yield from upserts_of(cursor, name, again, self.target, columns, upsert, winners)
        else:
            yield refused_of(cursor, name, again, columns)
            yield rows_of(cursor, again, self.target, columns, winners)

    def _letters(
        self, cursor: Cursor, again: Again, reads: Sequence[SpanRead], *, is_whole: bool
    ) -> tuple[int, tuple[Difference, ...]]:
        """What became of the dead letters that were read again; a purge may go on meanwhile."""
        name, letters = self.region.name, letters_of(self.region.name, again, reads)
        while True:
            purged = purged_of(cursor, name, again)
            if not purged:
                found = letters.differences(cursor, again.batch.seq, is_whole=is_whole)
            elif is_whole:
                found = letters.differences_but(cursor, again.batch.seq, purged)
            else:  # neither side is complete
                found = 0, ()
            if purged_of(cursor, name, again) == purged:
                return found

    def _reads(self, batch: Batch, spans: Spans) -> tuple[SpanRead, ...]:
        again = [one.span for one in spans]
        with transaction(self.region.ledger.engine, "reads") as cursor:
            reads = complete_reads(cursor, batch.staging, MEMBER, again)
        refuse_unread(batch, again, reads, self.region.pipeline.transform)
        return reads


def _counted(
    published: Published, spans: Spans, rows: tuple[int, int] | None
) -> Iterator[Difference]:
    """Each contradiction among the ledger's counts, or with the target's; needs no Kafka."""
    there, counted = rows or (0, published.rows)
    records = sum(one.records for one in spans)
    letters = sum(one.dead_letters for one in spans) + published.refused
    for what, count, found, who in (
        ("rows", counted, there, "the target has"),
        ("records", published.records, records, "its spans counted"),
        ("dead letters", published.dead_letters, letters, "its spans counted"),
    ):
        if count != found:
            text = f"the ledger counted {count} {what}, {who} {found}"
            yield Difference(Kind.miscounted, "ledger", published.seq, "", text)


def _miscounted(spans: Spans, reads: Sequence[SpanRead]) -> Iterator[Difference]:
    """Each span whose counts, read again, are not the ledger's."""
    counted = {read.span: (read.records, read.dead_letters) for read in reads}
    for one in spans:
        records, letters = counted[one.span]
        if (records, letters) != (one.records, one.dead_letters):
            text = (
                f"the ledger counted {one.records} records and {one.dead_letters} dead letters,"
                f" Kafka now has {records} and {letters}"
            )
            yield Difference(Kind.miscounted, "ledger", None, str(one.span), text)


def _with(proof: BatchProof, *found: Difference, wrong: int | None = None) -> BatchProof:
    return replace(
        proof,
        differences=(*proof.differences, *found),
        wrong=proof.wrong + (len(found) if wrong is None else wrong),
    )
