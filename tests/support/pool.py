"""A pool of processes in Spark's place: the same reader and writer, for the crash harness.

Workers are spawned: a fork would copy live Kafka clients. Only a process that has none yet may
fork its first ones; a fork server has none. Like Spark the pool runs a task again, once and under a
new attempt number, when the process it ran in has died.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from threading import Lock
from typing import cast

import pyarrow as pa
from tests.support.pool_task import PoolTask, needed, work

from tidemark.errors import JobFailed
from tidemark.failpoints import VARIABLE
from tidemark.model.batch import ONLY, Attempt, Batch
from tidemark.model.offsets import Span
from tidemark.spark.reader import ReadSpec
from tidemark.spark.source import pack
from tidemark.spark.specs import JobSpec, specs_of_batch
from tidemark.spark.transform import ArrowTransform

MOST_TRIES = 2


class PoolExecutor:
    """Drains batches in a few long-lived processes; an Arrow transform, or none."""

    def __init__(
        self,
        spec: ReadSpec,
        transform: ArrowTransform | None = None,
        processes: int = 2,
        context: SpawnContext | ForkServerContext | None = None,
    ) -> None:
        self._spec = spec
        self._context = context or get_context("spawn")
        self._transform = transform
        self._workers: list[_Worker | None] = [None] * processes
        self._attempts = itertools.count()
        self._lock = Lock()
        self._cancelled = False
        self._interrupted = False

    def output_schemas(self) -> Mapping[str, pa.Schema]:
        """The columns that the transform returns; nothing is read."""
        given = self._spec.schema
        return self._transform.schemas(given) if self._transform else {ONLY: given}

    def remarks(self) -> tuple[str, ...]:
        """Nothing: a function of one Arrow batch is given."""
        return ()

    def warm(self) -> None:
        """Processes start with their first task."""

    def is_by_record(self) -> bool:
        """Nothing is known of a function."""
        return self._transform is None

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        """Run one task per process; return the task attempts whose staged rows count.

        Raises:
            JobFailed: a task's process died twice, or the job was cancelled.
            TidemarkError: what a reader or writer raised, as it raised it.
        """
        reading, writing = specs_of_batch(self._spec, batch, self.output_schemas())
        parts = pack(spans, len(self._workers))
        tasks = {
            place: PoolTask(reading, writing, part, self._transform, next(self._attempts))
            for place, part in enumerate(parts)
        }
        with self._lock:
            self._interrupted = False
            self._workers = [w if w and w.is_alive else None for w in self._workers]
        return list(self._run(tasks))

    def cancel(self) -> None:
        """Kill the workers and refuse further tasks; safe from another thread."""
        self._cancelled = True
        self.interrupt()

    def interrupt(self) -> None:
        """Kill the workers: the running job fails; a later one may run. Safe from any thread."""
        with self._lock:
            self._interrupted = True
            for worker in filter(None, self._workers):
                worker.kill()

    def close(self) -> None:
        """End the workers; one in the middle of a task is killed."""
        for place in range(len(self._workers)):
            self._bury(place)

    def _run(self, tasks: dict[int, PoolTask]) -> Iterator[Attempt]:
        tries = dict.fromkeys(tasks, 1)
        running = {self._started(place, task): place for place, task in tasks.items()}
        while running:
            for pipe in cast(list[Pipe], wait(list(running))):
                place = running.pop(pipe)
                try:
                    outcome = pipe.recv()
                except (EOFError, ConnectionResetError):
                    running[self._again(place, tasks[place], tries)] = place
                    continue
                if isinstance(outcome, BaseException):
                    self.close()
                    raise outcome
                yield outcome

    def _again(self, place: int, task: PoolTask, tries: dict[int, int]) -> Pipe:
        self._bury(place)
        tries[place] += 1
        if tries[place] > MOST_TRIES and not self._stopped:
            self.close()
            raise JobFailed()
        return self._started(place, replace(task, attempt=next(self._attempts)))

    def _started(self, place: int, task: PoolTask) -> Pipe:
        with self._lock:
            if self._stopped:
                raise JobFailed()
            worker = self._workers[place] or self._a_worker()
            self._workers[place] = worker
            try:
                return worker.start(task)
            except BrokenPipeError:
                raise JobFailed() from None

    def _a_worker(self) -> "_Worker":
        return _forked.pop() if _forked else _Worker(self._context)

    @property
    def _stopped(self) -> bool:
        return self._cancelled or self._interrupted

    def _bury(self, place: int) -> None:
        worker = self._workers[place]
        if worker is not None:
            worker.kill()  # its pipe is closed; the process may still be on its way out
        self._workers[place] = None


class _Worker:
    """One process and the pipe to it."""

    def __init__(
        self,
        context: SpawnContext | ForkContext | ForkServerContext,
        beside: Sequence["_Worker"] = (),
    ) -> None:
        self._pipe, theirs = context.Pipe()
        is_fork = isinstance(context, ForkContext)
        copied = [self._pipe, *(one._pipe for one in beside)] if is_fork else []
        self._process: BaseProcess = context.Process(
            target=work, args=(theirs, copied, os.environ.get(VARIABLE, "")), daemon=True
        )
        self._process.start()
        theirs.close()  # so that a dead worker reads as the end of the pipe

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def start(self, task: PoolTask) -> Pipe:
        self._pipe.send(task)
        return self._pipe

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


_forked: list[_Worker] = []


def fork_workers(count: int) -> None:
    """The first workers of this process wait for tasks; it has neither threads nor clients."""
    for _ in range(count):
        _forked.append(_Worker(get_context("fork"), beside=_forked))


def pool_executor(spec: JobSpec) -> PoolExecutor:
    """The executor of these jobs without Spark.

    Their transform is left out, unless it makes rows for several targets.
    """
    return PoolExecutor(spec.reading, needed(spec))
