"""The jobs of an executor: one at a time, and another thread may stop it."""
# ruff: noqa: TID253 -- imported only once there is something to read

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from uuid import uuid4

from pyspark import SparkContext

from tidemark.spark.errors import SparkJobCancelled

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
