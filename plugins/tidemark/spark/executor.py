"""The Spark executor: one job a batch, from the source through the transform into staging.

Without a transform no row needs Spark: its tasks read and stage in one Python process each, and
nothing crosses into the JVM.
"""
# ruff: noqa: TID253 -- imported only once there is something to read

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemark.errors import InvalidSettings, JobFailed, SchemaMismatch, TidemarkError
from tidemark.model.batch import Attempt, Batch
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.failure import cause, marked, new_token, recognised
from tidemark.spark.packing import pack
from tidemark.spark.reader import ReadSpec
from tidemark.spark.session import context
from tidemark.spark.source import Arrow, attempt_id, frame_of, read_as_spark, wire_schema
from tidemark.spark.specs import read_spec, specs_of_batch
from tidemark.spark.writer import WriteSpec, stage

log = logging.getLogger(__name__)

Transform = Callable[[DataFrame], DataFrame]

CANCEL_SECONDS = 0.2
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
        self._group = f"tidemark-{uuid4()}"
        self._idle = Event()
        self._idle.set()
        self._cancelled = False
        self._spark: SparkContext | None = None
        self._schema: pa.Schema | None = None

    def output_schema(self) -> pa.Schema:
        """The columns that the transform returns; Spark is started, and nothing is read.

        Raises:
            JobFailed: the transform raises.
            InvalidSettings: it returns no DataFrame.
        """
        if self._schema is None:
            with self._failures():
                self._schema = self._found_schema(self._context)
        return self._schema

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        """Run the batch's job; return the task attempts whose staged rows count.

        Raises:
            JobFailed: the transform, a task or Spark failed, or the job was cancelled.
            SchemaMismatch: the transform returns other columns than at the start.
            TidemarkError: what a reader or writer raised, as it raised it.
        """
        schema = self.output_schema()
        reading, writing = specs_of_batch(self._spec, batch, schema)
        with self._job(batch), self._failures():
            if self._transform is None:
                return _copied(self._context, spans, _copying(reading, writing, self._token))
            frame = frame_of(SparkSession(self._context), reading, spans, self._token)
            rows = _transformed(self._transform, frame)
            _refuse_other_columns(_columns(rows), schema, batch)
            self._refuse_cancelled()
            staged = rows.mapInArrow(_staging(writing, self._token), from_arrow_schema(_WINNER))
            return [Attempt(*winner) for winner in staged.collect()]

    def cancel(self) -> None:
        """Stop the running job and refuse further ones; returns when none is running.

        Raises nothing and may be called from another thread. A job that is about to start is
        met by asking again.
        """
        self._cancelled = True
        while not self._idle.wait(CANCEL_SECONDS):
            if self._spark is not None:
                self._spark.cancelJobGroup(self._group)

    def interrupt(self) -> None:
        """Stop the running job: it fails; a later one may run. Raises nothing, for any thread."""
        if not self._idle.is_set() and self._spark is not None:
            self._spark.cancelJobGroup(self._group)

    def close(self) -> None:
        """Stop Spark, if it was started."""
        if self._spark is not None:
            self._spark.stop()
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
        empty = SparkSession(spark).createDataFrame([], from_arrow_schema(self._spec.schema))
        return _columns(_transformed(self._transform, empty))

    @contextmanager
    def _job(self, batch: Batch) -> Iterator[None]:
        what = f"region {batch.region}, batch {batch.seq}"
        self._idle.clear()
        try:
            self._refuse_cancelled()
            self._context.setJobGroup(self._group, what, interruptOnCancel=True)
            yield
        finally:
            self._idle.set()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Whatever fails inside comes out as one of our errors, in a paragraph."""
        try:
            yield
        except TidemarkError:
            raise
        except Exception as error:
            self._refuse_cancelled()
            if ours := recognised(str(error), self._token):
                raise ours from None
            log.debug("the job failed", exc_info=error)
            raise JobFailed(
                f"the job failed: {cause(error)}. Correct the transform or the cause, then run"
                " again; nothing of the batch became visible"
            ) from None

    def _refuse_cancelled(self) -> None:
        if self._cancelled:
            raise JobFailed("the job was cancelled; nothing of the batch became visible")


def spark_executor(
    pipeline: Pipeline, connections: Mapping[str, Connection], member: int
) -> SparkExecutor:
    """The executor of a pipeline's member, with the pipeline's transform.

    Raises:
        InvalidSettings: the transform can't be imported.
    """
    return SparkExecutor(
        read_spec(pipeline, connections, member),
        transform_of(pipeline) if pipeline.transform else None,
        lambda: context(f"tidemark {pipeline.region}", for_rows=pipeline.transform is not None),
    )


def transform_of(pipeline: Pipeline) -> Transform:
    """The pipeline's transform; the identity where it names none.

    Raises:
        InvalidSettings: it can't be imported.
    """
    if pipeline.transform is None:
        return lambda frame: frame
    module, _, name = pipeline.transform.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidSettings(
            f"transform {pipeline.transform}: {error}; name an importable module:function"
            f" (its project, {pipeline.project}, must be on PYTHONPATH)"
        ) from error
    return found  # type: ignore[no-any-return]


def _transformed(transform: Transform, frame: DataFrame) -> DataFrame:
    rows = transform(frame)
    if not isinstance(rows, DataFrame):
        raise InvalidSettings(
            f"the transform returned {type(rows).__name__}; let it return a DataFrame"
        )
    return rows


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
            f" {_named(found)}, at the start {_named(expected)}; let its columns not depend on"
            " data"
        )


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
