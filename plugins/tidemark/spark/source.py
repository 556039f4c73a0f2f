"""The source of a batch: a DataFrame whose tasks read the batch's spans.

It is mapInArrow over one number per task. Spark's Python DataSource does the same, but plans in
Python processes of its own, which cost seconds at the first batch and hundreds of megabytes. What
the tasks need travels pickled in their function: secrets stand neither in options nor in Spark's
configuration or plans. Spans are packed into about as many tasks as there are cores.

What a job took from its source is counted on Spark's side. A reader that ran to its end proves
nothing: Python writes ahead, and rows that Spark does not take are dropped without an error. So the
last row of each Arrow batch bears a mark, how many rows of each of its spans have come by then, and
a node right behind the source collects the marks of the rows that pass it.
A mark names its task attempt, and marks are a set: a task, a stage or a cache that is computed
again adds nothing, and failed attempts do not count. Each place where the plan uses the source has
its own node and must have taken everything.
"""

# ruff: noqa: TID253 -- imported only once there is something to read

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heapify, heapreplace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemark.model.batch import ONLY, Batch
from tidemark.model.errors import RowsNotConsumed
from tidemark.model.offsets import Span
from tidemark.spark._direct import Rows
from tidemark.spark._failure import marked
from tidemark.spark._plans import as_source, is_source, nodes
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.records import records_by_partition
from tidemark.spark.transform import ArrowTransform, spelled


def pack(spans: Iterable[Span], tasks: int) -> list[tuple[Span, ...]]:
    """Share spans out to at most `tasks` tasks; each span is in exactly one, none is empty.

    The widest span goes first, always to the task with the least so far: no task is wider than
    4/3 of the best possible.

    Raises:
        ValueError: there is no task to share out to.
    """
    if tasks < 1:
        raise ValueError(f"tasks must be positive, got {tasks}")
    packed: list[list[Span]] = [[] for _ in range(tasks)]
    load = [(0, task) for task in range(tasks)]
    heapify(load)
    for span in sorted(spans, key=lambda span: (-span.width, span)):
        width, task = load[0]
        packed[task].append(span)
        heapreplace(load, (width + span.width, task))
    return [tuple(sorted(task)) for task in packed if task]


MARK = pa.field("tidemark_mark", pa.string())


def with_marks(batches: Iterable[pa.RecordBatch], attempt: int) -> Iterator[pa.RecordBatch]:
    """The same batches and one more column, which is null but in the last row of each."""
    rows: Counter[tuple[str, int]] = Counter()
    for batch in batches:
        met = records_by_partition(batch)
        rows.update(met)
        mark = json.dumps([[*span, attempt, rows[span]] for span in met])
        marks = pa.concat_arrays([pa.nulls(batch.num_rows - 1, MARK.type), pa.array([mark])])
        yield batch.append_column(MARK, marks)


def counted(marked: DataFrame) -> DataFrame:
    """The rows without their marks, which Spark collects as they pass."""
    return as_source(marked, F.collect_set(MARK.name).alias("marks")).drop(MARK.name)


def consumed_rows(done: DataFrame) -> list[Rows]:
    """What a frame whose job has ended took, at each place where its plan uses the source."""
    plan = done._jdf.queryExecution().executedPlan()
    return [
        _rows(node.collectedMetrics().json()) for name, node in nodes(plan) if is_source(name, node)
    ]


def refuse_unconsumed(
    batch: Batch, spans: Sequence[Span], read: Rows, places: Sequence[Rows]
) -> None:
    """Every place has taken all rows that a complete read of each span gave.

    Raises:
        IncompleteRead: it has not, or the job used no source at all.
    """
    left = [
        span
        for span in spans
        if not places or not all(_has_consumed(one, span, read) for one in places)
    ]
    if left:
        raise RowsNotConsumed(region=batch.region, seq=batch.seq, spans=tuple(left))


def _has_consumed(place: Rows, span: Span, read: Rows) -> bool:
    return any(
        place.get((topic, partition, attempt), 0) == rows
        for (topic, partition, attempt), rows in read.items()
        if (topic, partition) == span.topic_partition
    )


def _rows(observed: str) -> Rows:
    rows: dict[tuple[str, int, int], int] = {}
    for mark in json.loads(observed).get("marks", ()):
        for topic, partition, attempt, count in json.loads(mark):
            key = topic, partition, attempt
            rows[key] = max(count, rows.get(key, 0))
    return rows


Arrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@contextmanager
def source(
    spark: SparkSession, spec: ReadSpec, spans: Sequence[Span], token: str, *, keeps: bool
) -> Iterator[DataFrame]:
    """A DataFrame that reads the spans whenever a job runs over it; no job runs here.

    Inside, if it `keeps` them, Spark reads records once that are used twice. What a job takes can
    be asked afterwards, see `counted`: it is counted behind what is kept, where that is used.
    Errors of ours leave its tasks marked with the token. Without spans it has no rows and its plan
    is the same. At the end goes what is kept of the rows, also by a transform.
    """
    rows = _marked(spark, spec, spans, token)
    try:
        yield counted(rows.persist() if keeps else rows)
    finally:
        _forget(rows)


def _forget(rows: DataFrame) -> None:
    """What Spark keeps of these rows, and of what is made of them, goes; nothing fails."""
    with suppress(Exception):
        kept = rows.sparkSession._jsparkSession.sharedState().cacheManager()
        kept.uncacheQuery(rows._jdf, True)


def _marked(spark: SparkSession, spec: ReadSpec, spans: Sequence[Span], token: str) -> DataFrame:
    tasks = pack(spans, spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    schema = from_arrow_schema(spec.schema.append(MARK))
    return numbers.mapInArrow(_reading(spec, tasks, token), schema)


def read_as_spark(spec: ReadSpec, spans: Sequence[Span], attempt: int) -> Iterator[pa.RecordBatch]:
    """What `read` yields, in the columns as Spark spells them."""
    return spelled(read(spec, spans, attempt), wire_schema(spec.schema))


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns as Spark spells them in Arrow: what it compares batches with."""
    return to_arrow_schema(from_arrow_schema(schema), timezone="UTC")


def direct_schemas(spec: ReadSpec, transform: ArrowTransform | None) -> dict[str, pa.Schema]:
    """The columns that an Arrow transform returns, or that are read; Spark is not needed.

    Raises:
        TransformFailed, JobFailed, InvalidSettings: see `ArrowTransform.schemas`.
    """
    given = wire_schema(spec.schema)
    return {ONLY: given} if transform is None else transform.schemas(given)


def attempt_id() -> int:
    """This task attempt's number: unique within the driver, a retry has another one."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("no Spark task runs here: a task attempt has no number")
    return int(context.taskAttemptId())


def _reading(spec: ReadSpec, tasks: Sequence[Sequence[Span]], token: str) -> Arrow:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with marked(token):
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    attempt = attempt_id()
                    yield from with_marks(read_as_spark(spec, tasks[number], attempt), attempt)

    return rows
