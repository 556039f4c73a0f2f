"""The proof of batches: spans are read again; rows, dead letters and counts are compared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import CorruptRecord, DataLost
from tidemark.ledger.looks import Looks, Published, PublishedSpan
from tidemark.member.job import JobExecutor
from tidemark.model.batch import ONLY, Batch, Stored
from tidemark.model.contribution import Attempt, SpanRead
from tidemark.model.facts import Facts
from tidemark.model.incomplete_read import refuse_unread
from tidemark.operations.region import Region
from tidemark.operations.retained import compacted, missing
from tidemark.postgres.transaction import transaction
from tidemark.staging import tables
from tidemark.staging.column import Column
from tidemark.staging.columns import columns_of
from tidemark.staging.reads import complete_reads
from tidemark.staging.target import Target
from tidemark.verify.counts import Spans, counted, difference, miscounted, miscounted_replay
from tidemark.verify.group import Begun, groups, joined
from tidemark.verify.multiset import Multisets
from tidemark.verify.places import are_in_place
from tidemark.verify.report import BatchProof, Difference, Kind
from tidemark.verify.rows import letters_of, purged_of, refused_of, rows_of
from tidemark.verify.scratch import Again, Scratch
from tidemark.verify.upserts import upserts_of
from tidemark.verify.whole import Whole

MEMBER = 0
"""Keys the scratch rows; no member of a run has this number."""


@dataclass(frozen=True, slots=True)
class Prover:
    """Proves the batches of a region."""

    region: Region
    scratch: Scratch
    targets: tuple[Target, ...]
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
        if published.replayed is not None:
            return self._begun_replay(published, published.replayed)
        spans = looks.published_spans(self.region.name, seq)
        proof = BatchProof(seq, published.records, published.rows, published.dead_letters)
        proof = _with(proof, *counted(published, spans), *self._rows_counted(published))
        proof = replace(proof, unverifiable=tuple(missing(spans, self.facts)))
        is_readable = bool(spans) and self.whole.is_comparable and not proof.unverifiable
        is_upsert = any(one.upsert for one in self.region.pipeline.all_targets.values())
        return Begun(proof, spans, is_readable, is_upsert, published.purged > 0)

    def _begun_replay(self, published: Published, replayed: int) -> Begun:
        """The same of a replay: what it read is in the ledger."""
        looks, seq = Looks(self.region.ledger.engine), published.seq
        spans = [
            PublishedSpan(span, "", 0, 0) for span in looks.replayed_spans(self.region.name, seq)
        ]
        proof = BatchProof(seq, published.records, published.rows, 0)
        proof = _with(proof, *self._rows_counted(published))
        is_readable = self.whole.is_comparable
        return Begun(proof, spans, is_readable, replayed=replayed)

    def _rows_counted(self, published: Published) -> Iterator[Difference]:
        """Each target that has not as many rows of the batch as the ledger counted."""
        for target in self.targets:
            known = self.whole.rows[target.name].get(published.seq)
            if known is None:  # since it was chosen: what differs then proves nothing
                text = "the batch has been pruned or rewound"
                yield Difference(Kind.miscounted, "ledger", published.seq, "", text)
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
            return self._replay_compared(one, one.replayed)
        try:
            return self._compared(one.proof, one.proof.seq, one.spans)
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
        first, last = group[0].proof.seq, group[-1].proof.seq
        again = self.scratch.again(first, last, joined(spans))
        try:
            proof = self._compared(BatchProof(first, 0, 0, 0), last, joined(spans))
        except (CorruptRecord, DataLost):
            return False
        with transaction(self.region.ledger.engine, "verify") as cursor:
            return proof.verdict == "equal" and all(
                are_in_place(cursor, self.region.name, again, one, has_transform=has_transform)
                for one in self.targets
            )

    def _compared(self, proof: BatchProof, last: int, spans: Spans) -> BatchProof:
        """The batches up to the last one; once more if a replay took of them meanwhile."""
        looks, name = Looks(self.region.ledger.engine), self.region.name
        while True:
            aside = looks.set_aside_of(name, proof.seq, last)
            again = self.scratch.again(proof.seq, last, spans, set_aside=aside)
            found = self._compared_once(proof, again, spans)
            if found.wrong == proof.wrong or looks.set_aside_of(name, proof.seq, last) == aside:
                return found

    def _replay_compared(self, one: Begun, replayed: int) -> BatchProof:
        """The records of a replay, as their dead letters keep them, give its rows again."""
        proof, spans, seq = one.proof, one.spans, one.proof.seq
        if not spans:
            return _with(proof, *miscounted_replay(seq, replayed, 0))
        again = self.scratch.again(seq, seq, spans, Stored(self.region.name, seq, is_proof=True))
        columns, winners, reads = self._read_again(again, spans)
        with transaction(self.region.ledger.engine, "verify") as cursor:
            for target in self.targets:
                rows = rows_of(cursor, again, target, columns[target.name], winners)
                wrong, first = rows.differences(cursor, seq, is_whole=True)
                proof = _with(proof, *first, wrong=wrong)
            self._drop(cursor, again)
        records = sum(read.records for read in reads)
        return _with(proof, *miscounted_replay(seq, replayed, records))

    def _read_again(
        self, again: Again, spans: Spans
    ) -> tuple[dict[str, Sequence[Column]], Sequence[Attempt], tuple[SpanRead, ...]]:
        batch, executor = again.batch, self.executor()
        columns: dict[str, Sequence[Column]] = {
            name: columns_of(one) for name, one in executor.output_schemas().items()
        }
        with transaction(self.region.ledger.engine, "scratch") as cursor:
            for name, own in columns.items():
                tables.create(cursor, batch.staging.of_target(name), own)
        winners = executor.drain(batch, [one.span for one in spans])
        return columns, winners, self._reads(batch, spans)

    def _drop(self, cursor: Cursor, again: Again) -> None:
        tables.drop(cursor, again.batch.staging)
        for target in self.targets:
            cursor.execute(sql.SQL("DROP TABLE {}").format(again.expected(target).identifier))

    def _compared_once(self, proof: BatchProof, again: Again, spans: Spans) -> BatchProof:
        batch = again.batch
        columns, winners, reads = self._read_again(again, spans)
        gone = tuple(compacted(self.region.kafka, spans, reads))
        with transaction(self.region.ledger.engine, "verify") as cursor:
            rows = [
                found
                for target in self.targets
                for found in self._rows(cursor, again, target, columns[target.name], winners)
            ]
            for found in filter(None, rows):
                wrong, first = found.differences(cursor, batch.seq, is_whole=not gone)
                proof = _with(proof, *first, wrong=wrong)
            wrong, first = self._letters(cursor, again, reads, is_whole=not gone)
            proof = _with(proof, *first, wrong=wrong)
            self._drop(cursor, again)
        if gone:
            return replace(proof, unverifiable=gone)
        return _with(proof, *miscounted(spans, reads))

    def _rows(
        self,
        cursor: Cursor,
        again: Again,
        target: Target,
        columns: Sequence[Column],
        winners: Sequence[Attempt],
    ) -> Iterator[Multisets | None]:
        """What became of the rows that were read again, as the target's mode says."""
        upsert, name = self.region.pipeline.all_targets[target.name].upsert, self.region.name
        if upsert:
            yield from upserts_of(cursor, name, again, target, columns, upsert, winners)
        else:
            yield refused_of(cursor, name, again, target, columns)
            yield rows_of(cursor, again, target, columns, winners)

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


def _with(proof: BatchProof, *found: Difference, wrong: int | None = None) -> BatchProof:
    return replace(
        proof,
        differences=(*proof.differences, *found),
        wrong=proof.wrong + (len(found) if wrong is None else wrong),
    )
