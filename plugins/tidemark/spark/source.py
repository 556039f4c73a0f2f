"""The source of a batch: a DataFrame whose tasks read the batch's spans.

It is mapInArrow over one number per task. Spark's Python DataSource does the same, but plans in
Python processes of its own, which cost seconds at the first batch and hundreds of megabytes. What
the tasks need travels pickled in their function: secrets stand neither in options nor in Spark's
configuration or plans.
"""
# ruff: noqa: TID253 -- imported only once there is something to read

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemark.model.batch import ONLY
from tidemark.model.offsets import Span
from tidemark.spark.arrow import ArrowTransform
from tidemark.spark.columns import spelled
from tidemark.spark.failure import marked
from tidemark.spark.packing import pack
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.taken import MARK, counted, with_marks

Arrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@contextmanager
def source(
    spark: SparkSession, spec: ReadSpec, spans: Sequence[Span], token: str, *, keeps: bool
) -> Iterator[DataFrame]:
    """A DataFrame that reads the spans whenever a job runs over it; no job runs here.

    Inside, if it `keeps` them, Spark reads records once that are used twice. What a job takes can
    be asked afterwards, see taken.py: it is counted behind what is kept, where that is used.
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
