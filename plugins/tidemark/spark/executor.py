"""The Spark executor: one job a batch, from the source through the transform into staging.

Without a transform no row needs Spark: its tasks read and stage in one Python process each, and
nothing crosses into the JVM.
"""
# ruff: noqa: TID253 -- imported only once there is something to read

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import psycopg2
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemark.errors import SchemaMismatch, TidemarkError
from tidemark.model.batch import Attempt, Batch
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.failure import failed, marked, new_token
from tidemark.spark.jobs import Jobs
from tidemark.spark.packing import pack
from tidemark.spark.plans import refuse_cuts
from tidemark.spark.postgres import postgres_errors
from tidemark.spark.reader import ReadSpec
from tidemark.spark.session import context
from tidemark.spark.source import Arrow, attempt_id, frame_of, read_as_spark, wire_schema
from tidemark.spark.specs import read_spec, specs_of_batch
from tidemark.spark.taken import Rows, refuse_untaken, taken
from tidemark.spark.transform import Transform, transform_of, transformed
from tidemark.spark.writer import WriteSpec, stage
from tidemark.staging.reads import rows_read

log = logging.getLogger(__name__)

_WINNER = pa.schema([("member", pa.int64()), ("attempt", pa.int64()), ("rows", pa.int64())])


class SparkExecutor:
    """Drains batches by Spark jobs; Spark starts when it is first needed."""

    def __init__(
        self, spec: ReadSpec, transform: Transform | None, start: Callable[[], SparkContext]
    ) -> None:
        self._spec = spec
        self._transform = transform
        self._start = start
        self._token = new_token()
        self._jobs = Jobs()
        self._spark: SparkContext | None = None
        self._schema: pa.Schema | None = None
        self._remarks: tuple[str, ...] = ()

    def output_schema(self) -> pa.Schema:
        """The columns that the transform returns; Spark is started, and nothing is read.

        Raises:
            TransformFailed: the transform raises, and would raise again.
            JobFailed: Spark failed, or what the transform asked did not answer.
            InvalidSettings: it returns no DataFrame.
            IncompleteRead: it cuts its rows.
        """
        if self._schema is None:
            with self._failures():
                self._schema = self._found_schema(self._context)
        return self._schema

    def remarks(self) -> tuple[str, ...]:
        """What a person should know about the transform's result."""
        self.output_schema()
        return self._remarks

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        """Run the batch's job; return the task attempts whose staged rows count.

        Raises:
            JobFailed: a task or Spark failed, or the job was cancelled.
            TransformFailed: the transform, or a function of it in a task, raised.
            IncompleteRead: the transform cuts its rows, or Spark did not take all of them.
            SchemaMismatch: the transform returns other columns than at the start.
            TidemarkError: what a reader or writer raised, as it raised it.
        """
        schema = self.output_schema()
        reading, writing = specs_of_batch(self._spec, batch, schema)
        spark, what = self._context, f"region {batch.region}, batch {batch.seq}"
        with self._jobs.running(spark, what), self._failures():
            if self._transform is None:
                return _copied(spark, spans, _copying(reading, writing, self._token))
            frame = frame_of(SparkSession(spark), reading, spans, self._token)
            rows = transformed(self._transform, frame)
            _refuse_other_columns(_columns(rows), schema, batch)
            self._jobs.refuse_cancelled()
            staged = rows.mapInArrow(_staging(writing, self._token), from_arrow_schema(_WINNER))
            refuse_cuts(staged)
            winners = [Attempt(*winner) for winner in staged.collect()]
            took = taken(staged)
        refuse_untaken(batch, spans, self._read(batch), took)
        return winners

    def cancel(self) -> None:
        """Stop the running job and refuse further ones; for another thread, see `Jobs.cancel`."""
        self._jobs.cancel()

    def interrupt(self) -> None:
        """Stop the running job; for another thread, see `Jobs.interrupt`."""
        self._jobs.interrupt()

    def close(self) -> None:
        """Stop Spark, if it was started; a JVM that is gone already is no error."""
        if self._spark is not None:
            try:
                self._spark.stop()
            except Exception as error:  # what ended the work must be heard, not this
                log.debug("Spark was not stopped", exc_info=error)
            self._spark = None

    @property
    def _context(self) -> SparkContext:
        if self._spark is None:
            self._spark = self._start()
        return self._spark

    def _found_schema(self, spark: SparkContext) -> pa.Schema:
        """A SparkSession's first use costs seconds: only a transform needs it."""
        if self._transform is None:
            return wire_schema(self._spec.schema)
        empty = frame_of(SparkSession(spark), self._spec, (), self._token)
        rows = transformed(self._transform, empty)
        self._remarks = refuse_cuts(rows)
        return _columns(rows)

    def _read(self, batch: Batch) -> Rows:
        with (
            postgres_errors(),
            closing(psycopg2.connect(**self._spec.postgres)) as connection,
            connection.cursor() as cursor,
        ):
            return rows_read(cursor, batch.staging, self._spec.member)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Whatever fails inside comes out as one of our errors, in a paragraph."""
        try:
            yield
        except TidemarkError:
            raise
        except Exception as error:
            self._jobs.refuse_cancelled()
            log.debug("the job failed", exc_info=error)
            raise failed(error, self._token) from None


def spark_executor(
    pipeline: Pipeline, connections: Mapping[str, Connection], member: int
) -> SparkExecutor:
    """The executor of a pipeline's member, with the pipeline's transform.

    Raises:
        InvalidSettings, TransformFailed: the transform can't be imported, see `transform_of`.
    """
    return SparkExecutor(
        read_spec(pipeline, connections, member),
        transform_of(pipeline) if pipeline.transform else None,
        lambda: context(f"tidemark {pipeline.region}", for_rows=pipeline.transform is not None),
    )


def _copied(
    spark: SparkContext, spans: Sequence[Span], copying: Callable[[Sequence[Span]], Attempt]
) -> list[Attempt]:
    """Each task stages what it reads: its rows stay in the process that decodes them."""
    tasks = pack(spans, spark.defaultParallelism)
    return list(spark.parallelize(tasks, len(tasks)).map(copying).collect())


def _copying(
    reading: ReadSpec, writing: WriteSpec, token: str
) -> Callable[[Sequence[Span]], Attempt]:
    def copied(spans: Sequence[Span]) -> Attempt:
        with marked(token):
            attempt = attempt_id()
            return stage(writing, read_as_spark(reading, spans, attempt), attempt)

    return copied


def _staging(spec: WriteSpec, token: str) -> Arrow:
    def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with marked(token):
            winner = stage(spec, batches, attempt_id())
        row = {"member": winner.member, "attempt": winner.attempt, "rows": winner.rows}
        yield pa.RecordBatch.from_pylist([row], schema=_WINNER)

    return staged


def _columns(rows: DataFrame) -> pa.Schema:
    return to_arrow_schema(rows.schema, timezone="UTC")


def _refuse_other_columns(found: pa.Schema, expected: pa.Schema, batch: Batch) -> None:
    if found != expected:
        raise SchemaMismatch(
            f"region {batch.region}, batch {batch.seq}: the transform returned"
            f" {_named(found)}, at the start {_named(expected)}; its columns must not depend on"
            " the data"
        )


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
