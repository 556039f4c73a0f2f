"""What a job took from its source, counted on Spark's side.

A reader that ran to its end proves nothing: Python writes ahead, and rows that Spark does not take
are dropped without an error. So the last row of each Arrow batch bears a mark, how many rows of
each of its spans have come by then, and a node right behind the source collects the marks of the
rows that pass it.
A mark names its task attempt, and marks are a set: a task, a stage or a cache that is computed
again adds nothing, and failed attempts do not count. Each place where the plan uses the source has
its own node and must have taken everything.
"""
# ruff: noqa: TID253 -- imported only once there is something to read

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.model.batch import Batch
from tidemark.model.errors import RowsNotTaken
from tidemark.model.offsets import Span
from tidemark.spark.direct import Rows
from tidemark.spark.plans import as_source, is_source, nodes

MARK = pa.field("tidemark_mark", pa.string())


def with_marks(batches: Iterable[pa.RecordBatch], attempt: int) -> Iterator[pa.RecordBatch]:
    """The same batches and one more column, which is null but in the last row of each."""
    rows: Counter[tuple[str, int]] = Counter()
    for batch in batches:
        met = _rows_of(batch)
        rows.update(met)
        mark = json.dumps([[*span, attempt, rows[span]] for span in met])
        marks = pa.concat_arrays([pa.nulls(batch.num_rows - 1, MARK.type), pa.array([mark])])
        yield batch.append_column(MARK, marks)


def counted(marked: DataFrame) -> DataFrame:
    """The rows without their marks, which Spark collects as they pass."""
    return as_source(marked, F.collect_set(MARK.name).alias("marks")).drop(MARK.name)


def taken(done: DataFrame) -> list[Rows]:
    """What a frame whose job has ended took, at each place where its plan uses the source."""
    plan = done._jdf.queryExecution().executedPlan()
    return [
        _rows(node.collectedMetrics().json()) for name, node in nodes(plan) if is_source(name, node)
    ]


def refuse_untaken(batch: Batch, spans: Sequence[Span], read: Rows, places: Sequence[Rows]) -> None:
    """Every place has taken all rows that a complete read of each span gave.

    Raises:
        IncompleteRead: it has not, or the job used no source at all.
    """
    left = [
        span for span in spans if not places or not all(_took(one, span, read) for one in places)
    ]
    if left:
        raise RowsNotTaken(region=batch.region, seq=batch.seq, spans=tuple(left))


def _took(place: Rows, span: Span, read: Rows) -> bool:
    return any(
        place.get((topic, partition, attempt), 0) == rows
        for (topic, partition, attempt), rows in read.items()
        if (topic, partition) == span.topic_partition
    )


def _rows_of(batch: pa.RecordBatch) -> dict[tuple[str, int], int]:
    places = pa.table(batch.select(["kafka_topic", "kafka_partition"]))
    counted = places.group_by(places.column_names, use_threads=False).aggregate([([], "count_all")])
    return {
        (topic, partition): count
        for topic, partition, count in zip(*counted.to_pydict().values(), strict=True)
    }


def _rows(observed: str) -> Rows:
    rows: dict[tuple[str, int, int], int] = {}
    for mark in json.loads(observed).get("marks", ()):
        for topic, partition, attempt, count in json.loads(mark):
            key = topic, partition, attempt
            rows[key] = max(count, rows.get(key, 0))
    return rows
