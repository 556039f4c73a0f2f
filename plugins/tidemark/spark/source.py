"""The Spark source `tidemark`: a Python DataSource over the spans of one batch.

Its class is made for each batch by a function, and holds the spec in its closure: secrets travel
pickled to the tasks, and stand neither in options nor in Spark's configuration or plans.
"""
# ruff: noqa: TID253 -- imported only once there is something to read

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tidemark.offsets import Span
from tidemark.spark.failure import marked
from tidemark.spark.packing import pack
from tidemark.spark.reader import ReadSpec, read

NAME = "tidemark"


@dataclass(frozen=True)
class Task(InputPartition):  # type: ignore[misc]
    """The spans that one task reads."""

    spans: tuple[Span, ...]


def frame_of(spark: SparkSession, spec: ReadSpec, spans: Sequence[Span], token: str) -> DataFrame:
    """A DataFrame that reads the spans whenever a job runs over it; no job runs here."""
    tasks = [Task(part) for part in pack(spans, spark.sparkContext.defaultParallelism)]
    spark.dataSource.register(source_of(spec, tasks, token))
    return spark.read.format(NAME).load()


def source_of(spec: ReadSpec, tasks: Sequence[Task], token: str) -> type[DataSource]:
    """The source's class for one batch; errors of ours leave its tasks marked with the token."""

    class Reader(DataSourceReader):  # type: ignore[misc]
        def partitions(self) -> Sequence[InputPartition]:
            return list(tasks)

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            with marked(token):
                spans = partition.spans if isinstance(partition, Task) else ()
                yield from read_as_spark(spec, spans, attempt_id())

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> StructType:
            return from_arrow_schema(spec.schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    return Source


def read_as_spark(spec: ReadSpec, spans: Sequence[Span], attempt: int) -> Iterator[pa.RecordBatch]:
    """What `read` yields, in the columns as Spark spells them."""
    wire = wire_schema(spec.schema)
    for batch in read(spec, spans, attempt):
        yield batch if batch.schema.equals(wire) else batch.cast(wire)


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns as Spark spells them in Arrow: what it compares batches with."""
    return to_arrow_schema(from_arrow_schema(schema), timezone="UTC")


def attempt_id() -> int:
    """This task attempt's number: unique within the driver, a retry has another one."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("no Spark task runs here: a task attempt has no number")
    return int(context.taskAttemptId())
