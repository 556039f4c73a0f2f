"""The proof of one batch: its spans are read again; rows, dead letters and counts compared."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql

from tidemark.errors import CorruptRecord, DataLost
from tidemark.ledger.looks import Looks, Published, PublishedSpan
from tidemark.member.job import JobExecutor
from tidemark.model.batch import Batch, SpanRead
from tidemark.model.facts import Facts
from tidemark.model.incomplete_read import refuse_unread
from tidemark.operations.region import Region
from tidemark.postgres.transaction import transaction
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.reads import complete_reads
from tidemark.staging.target import Target
from tidemark.verify.report import BatchProof, Difference, Kind
from tidemark.verify.retained import compacted, missing
from tidemark.verify.rows import letters_of, refused_of, rows_of
from tidemark.verify.scratch import Scratch
from tidemark.verify.whole import Whole

MEMBER = 0
"""Keys the scratch rows; no member of a run has this number."""

Spans = list[PublishedSpan]


@dataclass(frozen=True, slots=True)
class Prover:
    """Proves one batch after another of a region."""

    region: Region
    scratch: Scratch
    target: Target
    facts: Facts
    whole: Whole
    executor: Callable[[], JobExecutor]
    """Starts the executor when it is first called."""

    def proof_of(self, published: Published) -> BatchProof | None:
        """Read the batch again and compare it; only count it where Kafka lacks its records.

        None if it differs because a prune or a rewind removed it meanwhile: that proves nothing.
        """
        looks = Looks(self.region.ledger.engine)
        proof = self._proof(published, looks.published_spans(self.region.name, published.seq))
        is_gone = proof.wrong and not looks.is_restorable(self.region.name, published.seq)
        return None if is_gone else proof

    def _proof(self, published: Published, spans: Spans) -> BatchProof:
        there = self.whole.rows.get(published.seq, 0)
        proof = BatchProof(published.seq, published.records, published.rows, published.dead_letters)
        proof = _with(proof, *_counted(published, spans, there))
        proof = replace(proof, unverifiable=tuple(missing(spans, self.facts)))
        if proof.unverifiable or not spans or not self.whole.is_comparable:
            return proof
        try:
            return self._compared(proof, spans)
        except (CorruptRecord, DataLost) as error:  # Kafka lost them after `missing` was asked
            return replace(proof, unverifiable=(str(error),))

    def _compared(self, proof: BatchProof, spans: Spans) -> BatchProof:
        batch, executor = self.scratch.batch(proof.seq, spans), self.executor()
        columns = columns_of(executor.output_schema())
        with transaction(self.region.ledger.engine, "scratch") as cursor:
            tables.create(cursor, batch.staging, columns)
        winners = executor.drain(batch, [one.span for one in spans])
        reads = self._reads(batch, spans)
        gone = tuple(compacted(self.region.kafka, spans, reads))
        expected = self.scratch.expected(proof.seq)
        with transaction(self.region.ledger.engine, "verify") as cursor:
            refused = refused_of(cursor, self.region.name, batch, columns)
            rows = rows_of(cursor, batch, expected, self.target, columns, winners)
            letters = letters_of(self.region.name, batch, reads)
            for found in filter(None, (rows, refused, letters)):
                wrong, first = found.differences(cursor, batch.seq, is_whole=not gone)
                proof = _with(proof, *first, wrong=wrong)
            tables.drop(cursor, batch.staging)
            cursor.execute(sql.SQL("DROP TABLE {}").format(expected.identifier))
        if gone:
            return replace(proof, unverifiable=gone)
        return _with(proof, *_miscounted(spans, reads))

    def _reads(self, batch: Batch, spans: Spans) -> tuple[SpanRead, ...]:
        again = [one.span for one in spans]
        with transaction(self.region.ledger.engine, "reads") as cursor:
            reads = complete_reads(cursor, batch.staging, MEMBER, again)
        refuse_unread(batch, again, reads, self.region.pipeline.transform)
        return reads


def _counted(published: Published, spans: Spans, there: int) -> Iterator[Difference]:
    """Each contradiction among the ledger's counts, or with the target's; needs no Kafka."""
    records = sum(one.records for one in spans)
    letters = sum(one.dead_letters for one in spans) + published.refused
    for what, count, found, who in (
        ("rows", published.rows, there, "the target has"),
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
