"""One task of the pool: what a worker process imports, unpickles and runs."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

import pyarrow as pa

from tidemark.model.batch import Attempt
from tidemark.model.offsets import Span
from tidemark.spark.reader import ReadSpec, read
from tidemark.spark.writer import WriteSpec, stage

ArrowTransform = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class PoolTask:
    """One attempt to read some spans and stage their rows."""

    reading: ReadSpec
    writing: WriteSpec
    spans: tuple[Span, ...]
    transform: ArrowTransform | None
    attempt: int

    def run(self) -> Attempt:
        """Read, transform and stage, as a task of Spark does in its two workers."""
        batches = read(self.reading, self.spans, self.attempt)
        rows = batches if self.transform is None else map(self.transform, batches)
        return stage(self.writing, rows, self.attempt)


def work(pipe: Pipe) -> None:
    """Run tasks until the other end of the pipe is gone; what a task raises is its answer."""
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
