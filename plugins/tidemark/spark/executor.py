"""The Spark executor: one job a batch, from the source through the transform into staging.

With a DataFrame transform the rows pass through the JVM (_frame.py). With an Arrow transform or
none each task reads, transforms and stages in one Python process (_direct.py). Jobs run one at a
time, and another thread may stop one. Spark's first Python worker starts before the first batch,
whose plan would wait for it.
"""

# ruff: noqa: TID253 -- imported only once there is something to read

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemark.errors import IncompleteRead, TidemarkError
from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.errors import ReadsLost
from tidemark.model.offsets import Span
from tidemark.postgres.session import Cursor
from tidemark.spark._direct import Direct, Done, Rows, refuse_lost_reads, refuse_untransformed
from tidemark.spark._failure import answers, failed, marked, new_token
from tidemark.spark._frame import Shape, attempts, shape_of, staged, transformed
from tidemark.spark._plans import refuse_cuts
from tidemark.spark._postgres import end_sessions, postgres_errors, task_session
from tidemark.spark.cluster import Cluster
from tidemark.spark.errors import SparkJobCancelled
from tidemark.spark.reader import ReadSpec
from tidemark.spark.session import context
from tidemark.spark.source import (
    attempt_id,
    consumed_rows,
    direct_schemas,
    pack,
    refuse_unconsumed,
    source,
    wire_schema,
)
from tidemark.spark.specs import JobSpec, specs_of_batch
from tidemark.spark.transform import ArrowTransform, Transform, transform_of
from tidemark.staging.tables import rows_are_staged, rows_read

log = logging.getLogger(__name__)


CANCEL_SECONDS = 0.2


class Jobs:
    """A Spark job group of the executor's own; no method but `running` needs its thread."""

    def __init__(self) -> None:
        self._group = f"tidemark-{uuid4()}"
        self._idle = Event()
        self._idle.set()
        self._cancelled = False
        self._spark: SparkContext | None = None

    @contextmanager
    def running(self, spark: SparkContext, what: str) -> Iterator[None]:
        """Spark's jobs inside belong to the group; `what` describes them.

        Raises:
            JobFailed: jobs were cancelled before.
        """
        self._spark = spark
        self._idle.clear()
        try:
            self.refuse_cancelled()
            spark.setJobGroup(self._group, what, interruptOnCancel=True)
            yield
        finally:
            self._idle.set()

    def cancel(self) -> None:
        """Stop the running job and refuse further ones; returns when none is running.

        Raises nothing. A job that is about to start is met by cancelling again.
        """
        self._cancelled = True
        while not self._idle.wait(CANCEL_SECONDS):
            self._stop()

    def interrupt(self) -> None:
        """Stop the running job: it fails; a later one may run. Raises nothing."""
        if not self._idle.is_set():
            self._stop()

    def refuse_cancelled(self) -> None:
        """Return while jobs may run.

        Raises:
            JobFailed: they were cancelled.
        """
        if self._cancelled:
            raise SparkJobCancelled()

    def _stop(self) -> None:
        if self._spark is not None:
            with suppress(Exception):  # of a JVM that is gone nothing runs any more
                self._spark.cancelJobGroup(self._group)


WARM_SECONDS = 10.0
"""A cluster may be busy for longer: then the first batch waits, whose job can be cancelled."""


def warm(spark: SparkContext, *, for_rows: bool) -> None:
    """A worker has started, or WARM_SECONDS have passed; nothing fails here.

    Further ones are forked from its parent, as needed. Those that rows pass through have another.
    """
    thread = Thread(target=_start_worker, args=(spark, for_rows), name="warm", daemon=True)
    thread.start()
    thread.join(WARM_SECONDS)


def _start_worker(spark: SparkContext, for_rows: bool) -> None:
    try:
        if for_rows:
            SparkSession(spark).range(0, 1, 1, 1).mapInArrow(_same, "id long").collect()
        else:
            spark.parallelize([0], 1).map(_nothing).collect()
    except Exception as error:  # the first batch will say it
        log.debug("no worker was started beforehand", exc_info=error)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _nothing(_: int) -> None:
    """A task that does nothing."""


class SparkExecutor:
    """Drains batches by Spark jobs; Spark starts when it is first needed."""

    def __init__(
        self,
        spec: ReadSpec,
        transform: Transform | None,
        start: Callable[[], SparkContext],
        targets: Sequence[str] = (ONLY,),
        *,
        driver: Mapping[str, Any] | None = None,
    ) -> None:
        """`targets` are those that a DataFrame transform makes rows for.

        `driver` is how the driver itself reaches Postgres, where its tasks may only write.
        """
        self._spec = spec
        self._driver = driver or spec.postgres
        self._targets = targets
        self._transform = transform
        self._start = start
        self._token = new_token()
        self._jobs = Jobs()
        self._spark: SparkContext | None = None
        self._shape: Shape | None = None

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The columns that the transform returns, by target; Spark is started, nothing is read.

        Raises:
            TransformFailed: the transform raises, and would raise again.
            JobFailed: Spark failed, or what the transform asked did not answer.
            InvalidSettings: it returns no DataFrame, or no record batch.
            IncompleteRead: it cuts its rows.
        """
        return self._shaped.schemas

    def remarks(self) -> tuple[str, ...]:
        """What a person should know about the transform's result."""
        return self._shaped.remarks

    def is_by_record(self) -> bool:
        """Whether each row is made of one record, whose coordinates it bears."""
        return self._shaped.is_by_record

    def warm(self) -> None:
        """Spark and its first worker have started; see `warm`."""
        warm(self._context, for_rows=not isinstance(self._transform, ArrowTransform | None))

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        """Run the batch's job; return the task attempts whose staged rows count.

        Raises:
            JobFailed: a task or Spark failed, or the job was cancelled.
            TransformFailed: the transform, or a function of it in a task, raised.
            IncompleteRead: the transform cuts its rows, or Spark did not take all of them.
            SchemaMismatch: the transform returns other columns than at the start.
            TidemarkError: what a reader or writer raised, as it raised it.
        """
        reading, writing = specs_of_batch(self._spec, batch, self.output_schemas())
        what = f"region {batch.region}, batch {batch.seq}"
        with self._failures(), self._jobs.running(self._context, what):
            if isinstance(self._transform, ArrowTransform | None):
                given = wire_schema(reading.schema)
                direct = Direct(
                    reading=reading,
                    writing=writing,
                    given=given,
                    transform=self._transform,
                    what=what,
                )
                return self._drain_directly(batch, spans, direct)
            given = SparkSession(self._context), reading, spans, self._token
            with source(*given, keeps=len(self._targets) > 1) as frame:
                parts = transformed(self._transform, frame, self._targets)
                written = staged(parts, writing, self._token, what)
                self._jobs.refuse_cancelled()
                for rows in parts.values():
                    refuse_cuts(rows)
                winners = attempts(written.collect())
                took = consumed_rows(written)
        with self._staging_is_whole(batch, spans, winners):
            refuse_unconsumed(batch, spans, self._read(batch), took)
        return winners

    def cancel(self) -> None:
        """Stop the running job and refuse further ones; for another thread, see `Jobs.cancel`."""
        self._jobs.cancel()

    def interrupt(self) -> None:
        """Stop the running job; for another thread, see `Jobs.interrupt`."""
        self._jobs.interrupt()

    def close(self) -> None:
        """Stop Spark, if it was started; a JVM that is gone already is no error."""
        end_sessions()
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

    @property
    def _shaped(self) -> Shape:
        if self._shape is None:
            with self._failures():
                self._shape = self._found_shape(self._context)
        return self._shape

    def _found_shape(self, spark: SparkContext) -> Shape:
        """A SparkSession's first use costs seconds: only a DataFrame transform needs it."""
        transform = self._transform
        if isinstance(transform, ArrowTransform | None):
            return Shape(direct_schemas(self._spec, transform), (), transform is None)
        with source(SparkSession(spark), self._spec, (), self._token, keeps=False) as empty:
            return shape_of(transformed(transform, empty, self._targets), empty)

    def _drain_directly(self, batch: Batch, spans: Sequence[Span], direct: Direct) -> list[Attempt]:
        spark, token = self._context, self._token

        def run(spans: Sequence[Span]) -> Done:
            with marked(token):
                return direct.run(spans, attempt_id())

        tasks = pack(spans, spark.defaultParallelism)
        done = spark.parallelize(tasks, len(tasks)).map(run).collect()
        if direct.transform is not None:
            read = self._read(batch)
            refuse_lost_reads(batch, done, read)
            refuse_untransformed(direct.what, done, read)
        return [one.attempt for one in done]

    @contextmanager
    def _staging_is_whole(
        self, batch: Batch, spans: Sequence[Span], winners: Sequence[Attempt]
    ) -> Iterator[None]:
        """Inside, what the job is blamed for rests on what it has staged.

        Raises:
            StagingLost: rows are gone, so reads may be.
        """
        try:
            yield
        except IncompleteRead as error:
            with self._looking() as cursor:
                if rows_are_staged(cursor, batch.staging, winners):
                    raise
            lost = tuple(spans)
            raise ReadsLost(region=batch.region, seq=batch.seq, spans=lost) from error

    def _read(self, batch: Batch) -> Rows:
        with self._looking() as cursor:
            return rows_read(cursor, batch.staging, self._spec.member)

    @contextmanager
    def _looking(self) -> Iterator[Cursor]:
        """A look of the driver into staging."""
        with (
            postgres_errors(),
            task_session(self._driver) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            yield cursor

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
            is_gone = self._spark is not None and not answers(self._spark)
            raise failed(error, self._token, is_jvm_gone=is_gone) from None


def spark_executor(spec: JobSpec) -> SparkExecutor:
    """The executor of these jobs, with their transform.

    Raises:
        InvalidSettings, TransformFailed: the transform can't be imported, see `transform_of`.
    """
    transform = transform_of(spec.transform)
    for_rows = not isinstance(transform, ArrowTransform | None)

    def start() -> SparkContext:
        cluster = Cluster.of(spec.spark, spec.project)
        return context(f"tidemark {spec.region}", for_rows=for_rows, cluster=cluster)

    return SparkExecutor(spec.reading, transform, start, spec.targets, driver=spec.driver)
