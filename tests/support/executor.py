"""An executor without Spark: the shipped reader and writer in the process of the test."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from threading import Event

import pyarrow as pa
from tests.support.pool_task import PoolTask, needed

from tidemark.errors import JobFailed
from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.offsets import Span
from tidemark.spark._postgres import end_sessions
from tidemark.spark.specs import JobSpec, specs_of_batch

BAD = b"bad"
"""A value that becomes a dead letter."""

Hook = Callable[["LocalExecutor", Batch, Sequence[Span]], object]


def nothing(executor: "LocalExecutor", batch: Batch, spans: Sequence[Span]) -> None:
    """The hook of a test that lets the job alone."""


class LocalExecutor:
    """Runs a batch as one task; hooks let a test step in before and after the job.

    Its transform is left out, unless it makes rows for several targets.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        before: Hook = nothing,
        after: Hook = nothing,
    ) -> None:
        self.job = spec
        self._spec = spec.reading
        self._transform = needed(spec)
        self.member = spec.reading.member
        self.cancelled = Event()
        self.interrupted = Event()
        self.closed = Event()
        self.drained: list[tuple[Batch, tuple[Span, ...]]] = []
        self._before = before
        self._after = after
        self._attempts = itertools.count()

    def output_schemas(self) -> Mapping[str, pa.Schema]:
        given = self._spec.schema
        return self._transform.schemas(given) if self._transform else {ONLY: given}

    def remarks(self) -> tuple[str, ...]:
        return ()

    def warm(self) -> None:
        pass

    def is_by_record(self) -> bool:
        return self._transform is None

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        self.drained.append((batch, tuple(spans)))
        self.interrupted.clear()
        self._before(self, batch, spans)
        if self.cancelled.is_set() or self.interrupted.is_set():
            raise JobFailed()
        reading, writing = specs_of_batch(self._spec, batch, self.output_schemas())
        attempt = next(self._attempts)
        winner = PoolTask(reading, writing, tuple(spans), self._transform, attempt).run()
        self._after(self, batch, spans)
        return [winner]

    def cancel(self) -> None:
        self.cancelled.set()

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        end_sessions()
        self.closed.set()
