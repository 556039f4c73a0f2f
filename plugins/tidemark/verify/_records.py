"""The rows that records should give, read and transformed in this process; nothing is staged."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.model.batch import ONLY, DeadLetter
from tidemark.model.offsets import Span, TopicPartition
from tidemark.settings.sections import NamedTransform
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.sample import is_by_record, transformed_sample
from tidemark.staging.column import COORDINATES
from tidemark.verify._table import OFFSET, PLACE
from tidemark.verify.errors import RowsBearNoRecord, RowsNotByRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_A_TRANSFORM = 100_000
"""Rows that a transform is given at once: a job of Spark has a fixed cost."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a pipeline's topics, as its decode and transform make rows of them."""

    spec: ReadSpec
    transform: NamedTransform | None
    spark: Callable[[], "SparkSession"]
    """Starts Spark when it is first called: for a transform of DataFrames."""
    names: Mapping[str, str]
    """What the table calls columns of the rows."""
    places: Sequence[TopicPartition]
    dead_letters: Counter[str] = field(default_factory=Counter)
    """By reason."""

    def schema(self) -> pa.Schema:
        """The columns of the rows.

        Raises:
            SchemaMismatch: they do not tell their record, or are made of several.
        """
        found = self._made(pa.Table.from_batches([], self.spec.schema)).schema
        if missing := tuple(name for name in COORDINATES if name not in found.names):
            raise RowsBearNoRecord(columns=missing)
        if not is_by_record(self.transform, self.spec.schema, self.spark):
            raise RowsNotByRecord()
        return found

    def none(self, schema: pa.Schema) -> pa.RecordBatch:
        """No row, in the columns that rows have."""
        own = [(one.name, one.arrow_type) for one in (PLACE, OFFSET)]
        return pa.RecordBatch.from_pylist([], pa.schema([*schema, *own]))

    def rows(
        self, spans: Sequence[Span], only: Mapping[int, Collection[int]] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all records of the spans, or of these offsets by the number of a partition.

        Raises:
            DataLost: Kafka does not hold a needed offset any more.
            CorruptRecord, Unreachable: see `read_spans`.
        """
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in read(self.spec, spans, 0, self._reject):
            waiting.append(batch)
            rows += batch.num_rows
            if self.transform is None or rows >= ROWS_A_TRANSFORM:
                yield from self._placed(waiting, only)
                waiting, rows = [], 0
        if waiting:
            yield from self._placed(waiting, only)

    def _reject(self, dead_letters: list[DeadLetter]) -> None:
        self.dead_letters.update(one.reason for one in dead_letters)

    def _made(self, rows: pa.Table) -> pa.Table:
        return transformed_sample(self.transform, rows, self.spark)[ONLY]

    def _placed(
        self, batches: Sequence[pa.RecordBatch], only: Mapping[int, Collection[int]] | None
    ) -> Iterator[pa.RecordBatch]:
        """With the number of their partition and their offset, under the table's names."""
        for rows in self._made(pa.Table.from_batches(batches)).combine_chunks().to_batches():
            topic, partition, offset = (rows.column(name) for name in COORDINATES)
            tells = pc.binary_join_element_wise(topic, partition.cast(pa.string()), "[")
            known = pa.array([f"{one.topic}[{one.partition}" for one in self.places])
            place = pc.index_in(tells, known)
            if place.null_count or offset.null_count:
                raise RowsBearNoRecord(columns=tuple(COORDINATES))
            names = [self.names.get(name, name) for name in rows.schema.names]
            made = pa.RecordBatch.from_arrays(
                [*rows.columns, place, offset], [*names, PLACE.name, OFFSET.name]
            )
            if only is not None:
                chosen = [
                    at in only.get(number, ())
                    for number, at in zip(place.to_pylist(), offset.to_pylist(), strict=True)
                ]
                made = made.filter(pa.array(chosen, pa.bool_()))
            if made.num_rows:
                yield made
