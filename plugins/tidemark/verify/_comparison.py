"""The comparison: spans are read again, and what comes of them is compared with what is there.

Consecutive batches are proven in groups, each partition's spans as one span. A job has a fixed
cost, so small batches are proven together. That is as strict only where it proves each of them, so
a group is equal only if
  - each row is made of one record, whose coordinates it bears, however batches are cut;
  - the rows and dead letters of all its batches are, as multisets, those read again;
  - each of them lies in the span of its own batch;
  - each span's counts are those of its rows and letters, or it has a record at every offset.
Any other group is halved, down to single batches: their proofs name what differs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql

from tidemark.admin.held import compacted
from tidemark.ledger.queries import Published, PublishedSpan
from tidemark.model.batch import Attempt, Batch, SpanRead, Stored
from tidemark.model.offsets import TopicPartition
from tidemark.postgres.session import Cursor, exact_texts
from tidemark.postgres.transaction import transaction
from tidemark.runs.job import JobExecutor
from tidemark.runs.region import Region
from tidemark.settings.target import OnNewColumn, TargetSettings
from tidemark.staging import tables
from tidemark.staging.column import Column
from tidemark.staging.columns import columns_of
from tidemark.staging.tables import whole_reads
from tidemark.staging.target import Target
from tidemark.staging.target_writer import but, columns_to_skip
from tidemark.verify._multiset import Multisets
from tidemark.verify._rows import dead_letters_of, purged_of, refused_of, rows_of, upserts_of
from tidemark.verify._scratch import RereadBatches, Scratch
from tidemark.verify.report import BatchProof, Difference, Kind

RECORDS = 100_000
"""Records of a group: enough to make a job's fixed cost small, few enough to see progress."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch of which only the counts are compared yet."""

    proof: BatchProof
    spans: Sequence[PublishedSpan]
    is_readable: bool
    """Whether its records can be read again and its rows compared."""
    is_upsert: bool = False
    """Whether a later batch may have changed its rows."""
    is_purged: bool = False
    replayed: int | None = None
    """Of a replay, how many dead letters became its rows."""

    @property
    def is_alone(self) -> bool:
        """Whether it is in no group: its report names something of its own, or its keys decide."""
        is_odd = self.is_upsert or self.is_purged or self.replayed is not None
        return is_odd or not self.is_readable or bool(self.proof.wrong)


def groups(batches: Iterable[Begun]) -> Iterator[list[Begun]]:
    """All batches in their order; spans of one partition join without a gap within a group."""
    group: list[Begun] = []
    ends: dict[TopicPartition, tuple[str, int]] = {}
    records = 0
    for one in batches:
        records += one.proof.records
        if group and (records > RECORDS or not _joins(group[-1], one, ends)):
            yield group
            group, ends, records = [], {}, one.proof.records
        group.append(one)
        ends |= {
            planned.span.topic_partition: (planned.topic_id, planned.span.end)
            for planned in one.spans
        }
    if group:
        yield group


def joined(spans: Iterable[PublishedSpan]) -> list[PublishedSpan]:
    """One span for each partition, from first start to last end, with the sums of the counts."""
    found: dict[TopicPartition, PublishedSpan] = {}
    for one in spans:
        before = found.get(one.span.topic_partition)
        found[one.span.topic_partition] = _longer(before, one) if before else one
    return list(found.values())


def _joins(last: Begun, one: Begun, ends: dict[TopicPartition, tuple[str, int]]) -> bool:
    if last.is_alone or one.is_alone:
        return False
    starts = {
        planned.span.topic_partition: (planned.topic_id, planned.span.start)
        for planned in one.spans
    }
    return all(ends.get(partition, start) == start for partition, start in starts.items())


def _longer(before: PublishedSpan, after: PublishedSpan) -> PublishedSpan:
    return replace(
        after,
        span=replace(after.span, start=before.span.start),
        records=before.records + after.records,
        dead_letters=before.dead_letters + after.dead_letters,
    )


Spans = Sequence[PublishedSpan]


def counted(published: Published, spans: Spans) -> Iterator[Difference]:
    """Each contradiction among the ledger's counts; needs no Kafka."""
    records = sum(one.records for one in spans)
    dead_letters = sum(one.dead_letters for one in spans) + published.refused
    who = "its spans counted"
    yield from difference(published, "records", published.records, records, who)
    yield from difference(published, "dead letters", published.dead_letters, dead_letters, who)


def difference(
    published: Published, what: str, count: int, found: int, who: str
) -> Iterator[Difference]:
    """Nothing, if the ledger's count is what `who` found."""
    if count != found:
        text = f"the ledger counted {count} {what}, {who} {found}"
        yield Difference(
            kind=Kind.miscounted, what="ledger", seq=published.seq, where="", detail=text
        )


def miscounted_replay(seq: int, replayed: int, records: int) -> Iterator[Difference]:
    """Nothing, if as many dead letters are marked as the replay counted."""
    if replayed != records:
        text = f"the ledger counted {replayed} replayed dead letters, and {records} are there"
        yield Difference(kind=Kind.miscounted, what="ledger", seq=seq, where="", detail=text)


def miscounted(spans: Spans, reads: Sequence[SpanRead]) -> Iterator[Difference]:
    """Each span whose counts, read again, are not the ledger's."""
    counted = {read.span: (read.records, read.dead_letters) for read in reads}
    for one in spans:
        records, dead_letters = counted[one.span]
        if (records, dead_letters) != (one.records, one.dead_letters):
            text = (
                f"the ledger counted {one.records} records and {one.dead_letters} dead letters,"
                f" Kafka now has {records} and {dead_letters}"
            )
            yield Difference(
                kind=Kind.miscounted, what="ledger", seq=None, where=str(one.span), detail=text
            )


MEMBER = 0
"""Keys the scratch rows; no member of a run has this number."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares batches of a region with what their records give again."""

    region: Region
    scratch: Scratch
    targets: tuple[Target, ...]
    executor: Callable[[], JobExecutor]
    """Starts the executor when it is first called."""

    def compared(self, proof: BatchProof, last: int, spans: Spans) -> BatchProof:
        """The batches up to the last one; once more if a replay took of them meanwhile."""
        queries, name = self.region.ledger.queries, self.region.name
        while True:
            aside = queries.set_aside_of(name, proof.seq, last)
            again = self.scratch.read_again(proof.seq, last, spans, set_aside=aside)
            found = self._compared_once(proof, again, spans)
            if found.wrong == proof.wrong or queries.set_aside_of(name, proof.seq, last) == aside:
                return found

    def replay_compared(self, one: Begun, replayed: int) -> BatchProof:
        """The records of a replay, as their dead letters keep them, give its rows again."""
        proof, spans, seq = one.proof, one.spans, one.proof.seq
        if not spans:
            return with_found(proof, *miscounted_replay(seq, replayed, 0))
        again = self.scratch.read_again(
            seq, seq, spans, Stored(self.region.name, seq, is_proof=True)
        )
        columns, winners, reads = self._read_again(again, spans)
        with transaction(self.region.ledger.engine, "verify") as cursor:
            for target in self.targets:
                settings = self.region.pipeline.all_targets[target.name]
                own = _published(cursor, target, columns[target.name], settings)
                rows = rows_of(cursor, again, target, own, winners)
                wrong, first = rows.differences(cursor, seq, is_whole=True)
                proof = with_found(proof, *first, wrong=wrong)
            self._drop(cursor, again)
        records = sum(read.records for read in reads)
        return with_found(proof, *miscounted_replay(seq, replayed, records))

    def _read_again(
        self, again: RereadBatches, spans: Spans
    ) -> tuple[dict[str, Sequence[Column]], Sequence[Attempt], tuple[SpanRead, ...]]:
        batch, executor = again.batch, self.executor()
        columns: dict[str, Sequence[Column]] = {
            name: columns_of(one) for name, one in executor.output_schemas().items()
        }
        with transaction(self.region.ledger.engine, "scratch") as cursor:
            for name, own in columns.items():
                tables.create(cursor, batch.staging.of_target(name), own, self.region.writer)
        winners = executor.drain(batch, [one.span for one in spans])
        return columns, winners, self._reads(batch, spans, winners)

    def _drop(self, cursor: Cursor, again: RereadBatches) -> None:
        tables.drop(cursor, again.batch.staging)
        for target in self.targets:
            cursor.execute(sql.SQL("DROP TABLE {}").format(again.expected(target).identifier))

    def _compared_once(self, proof: BatchProof, again: RereadBatches, spans: Spans) -> BatchProof:
        batch = again.batch
        columns, winners, reads = self._read_again(again, spans)
        gone = tuple(compacted(self.region.kafka, spans, reads))
        with transaction(self.region.ledger.engine, "verify") as cursor:
            exact_texts(cursor)  # as the publish had them
            refused = refused_of(cursor, self.region.name, again, columns)
            rows = [
                found
                for target in self.targets
                for found in self._rows(cursor, again, target, columns[target.name], winners)
            ]
            for found in filter(None, (refused, *rows)):
                wrong, first = found.differences(cursor, batch.seq, is_whole=not gone)
                proof = with_found(proof, *first, wrong=wrong)
            wrong, first = self._dead_letters(cursor, again, reads, is_whole=not gone)
            proof = with_found(proof, *first, wrong=wrong)
            self._drop(cursor, again)
        if gone:
            return replace(proof, unverifiable=gone)
        return with_found(proof, *miscounted(spans, reads))

    def _rows(
        self,
        cursor: Cursor,
        again: RereadBatches,
        target: Target,
        columns: Sequence[Column],
        winners: Sequence[Attempt],
    ) -> Iterator[Multisets]:
        """What became of the rows that were read again, as the target's mode says."""
        settings, name = self.region.pipeline.all_targets[target.name], self.region.name
        upsert = self.region.pipeline.upsert_of(target.name)
        columns = _published(cursor, target, columns, settings)
        if upsert:
            yield from upserts_of(cursor, name, again, target, columns, upsert, winners)
        else:
            yield rows_of(cursor, again, target, columns, winners)

    def _dead_letters(
        self, cursor: Cursor, again: RereadBatches, reads: Sequence[SpanRead], *, is_whole: bool
    ) -> tuple[int, tuple[Difference, ...]]:
        """What became of the dead letters that were read again; a purge may go on meanwhile."""
        name, dead_letters = self.region.name, dead_letters_of(self.region.name, again, reads)
        while True:
            purged = purged_of(cursor, name, again)
            if not purged:
                found = dead_letters.differences(cursor, again.batch.seq, is_whole=is_whole)
            elif is_whole:
                found = dead_letters.differences_but(cursor, again.batch.seq, purged)
            else:  # neither side is complete
                found = 0, ()
            if purged_of(cursor, name, again) == purged:
                return found

    def _reads(
        self, batch: Batch, spans: Spans, winners: Sequence[Attempt]
    ) -> tuple[SpanRead, ...]:
        again, transform = [one.span for one in spans], self.region.pipeline.transform
        with transaction(self.region.ledger.engine, "reads") as cursor:
            return whole_reads(cursor, batch, MEMBER, again, winners, transform)


def with_found(proof: BatchProof, *found: Difference, wrong: int | None = None) -> BatchProof:
    """The proof with these differences; `wrong`, if more were counted than are told."""
    return replace(
        proof,
        differences=(*proof.differences, *found),
        wrong=proof.wrong + (len(found) if wrong is None else wrong),
    )


def _published(
    cursor: Cursor, target: Target, columns: Sequence[Column], settings: TargetSettings
) -> Sequence[Column]:
    """Those of the rows' columns that a run with these settings publishes."""
    if settings.on_new_column is not OnNewColumn.ignore:
        return columns
    return but(columns, columns_to_skip(cursor, target, columns, settings.upsert))
