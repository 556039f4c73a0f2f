"""One task of the pool: what a worker process imports, unpickles and runs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from tidemark.failpoints import VARIABLE
from tidemark.model.batch import ONLY, Attempt
from tidemark.model.offsets import Span
from tidemark.spark._direct import Direct
from tidemark.spark._writer import WriteSpec
from tidemark.spark.reader import ReadSpec
from tidemark.spark.specs import JobSpec
from tidemark.spark.transform import ArrowTransform, transform_of


@dataclass(frozen=True, slots=True)
class PoolTask:
    """One attempt to read some spans and stage their rows."""

    reading: ReadSpec
    writing: WriteSpec
    spans: tuple[Span, ...]
    transform: ArrowTransform | None
    attempt: int

    def run(self) -> Attempt:
        """Read, transform and stage, as a task of Spark does in one worker."""
        given = self.reading.schema
        direct = Direct(self.reading, self.writing, given, self.transform, "a batch")
        return direct.run(self.spans, self.attempt).attempt


def needed(spec: JobSpec) -> ArrowTransform | None:
    """The job's transform, if it makes rows for several targets."""
    if spec.targets == (ONLY,):
        return None
    transform = transform_of(spec.transform)
    assert isinstance(transform, ArrowTransform)
    return transform


def work(pipe: Pipe, copied: Sequence[Pipe] = (), failpoints: str = "") -> None:
    """Run tasks until the other end of the pipe is gone; what a task raises is its answer.

    A fork has copied the other ends of pipes: as long as it keeps them, they are not gone. The
    failpoints are those of the process that asked for it: a fork server has older ones.
    """
    os.environ[VARIABLE] = failpoints
    for end in copied:
        end.close()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            outcome: Attempt | Exception = task.run()
        except Exception as error:  # the worker lives on; the driver raises it
            outcome = error
        pipe.send(outcome)
