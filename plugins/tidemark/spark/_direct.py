"""The way without the JVM: one process reads rows, applies an Arrow transform and stages them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.errors import ReadsLost
from tidemark.model.offsets import Span
from tidemark.spark._writer import Parts, WriteSpec, stage
from tidemark.spark.errors import RowsNotTransformed
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.records import count_records
from tidemark.spark.transform import ArrowTransform, spelled

Rows = Mapping[tuple[str, int, int], int]
"""Rows by topic, partition and task attempt."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one task attempt has done."""

    spans: tuple[Span, ...]
    attempt: Attempt
    taken: int
    """Records whose rows left the reader and were dealt with."""


@dataclass(frozen=True, slots=True)
class Direct:
    """What a task needs besides its spans; it travels pickled, secrets and all."""

    reading: ReadSpec
    writing: WriteSpec
    given: pa.Schema
    """The columns that the transform is given."""
    transform: ArrowTransform | None
    what: str

    def run(self, spans: Sequence[Span], attempt: int) -> Done:
        """All rows that the transform makes of the spans are staged; see `read` and `stage`.

        Raises:
            TransformFailed, JobFailed, InvalidSettings, SchemaMismatch: see `ArrowTransform.rows`.
        """
        read_rows = _Counted(spelled(read(self.reading, spans, attempt), self.given))
        made: Iterable[Parts] = ({ONLY: batch} for batch in read_rows)
        if self.transform is not None:
            made = self.transform.rows(read_rows, self.writing.schemas, self.what)
        winner = stage(self.writing, made, attempt)
        return Done(tuple(spans), winner, read_rows.taken)


class _Counted:
    """The same batches; a batch counts once the next one, or the end, is asked for."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.taken = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            yield batch
            self.taken += count_records(batch)


def refuse_lost_reads(batch: Batch, done: Iterable[Done], read: Rows) -> None:
    """Every task that has returned has left a complete read of each of its spans.

    Raises:
        StagingLost: one is gone; a task records them before it returns.
    """
    lost = tuple(
        span
        for one in done
        for span in one.spans
        if (*span.topic_partition, one.attempt.attempt) not in read
    )
    if lost:
        raise ReadsLost(region=batch.region, seq=batch.seq, spans=lost)


def refuse_untransformed(what: str, done: Iterable[Done], read: Rows) -> None:
    """The transform was given every row that the reads of its task counted.

    Raises:
        IncompleteRead: it was not.
    """
    for one in done:
        counts = [read.get((*span.topic_partition, one.attempt.attempt)) for span in one.spans]
        known = sum(filter(None, counts))
        if None in counts or known != one.taken:
            raise RowsNotTransformed(what=what, spans=one.spans, given=one.taken, read=known)
