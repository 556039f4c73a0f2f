"""The pool's reader and writer without its processes: for a look that nothing breaks."""

from collections.abc import Iterator, Mapping

from tidemark.checkpoint import Attempt
from tidemark.connections import Connection
from tidemark.pipeline import Pipeline
from tidemark.spark.pool import PoolExecutor
from tidemark.spark.specs import read_spec
from tidemark.spark.task import PoolTask


class HereExecutor(PoolExecutor):
    """Runs a job's tasks in this process, one after another."""

    def _run(self, tasks: dict[int, PoolTask]) -> Iterator[Attempt]:
        return (task.run() for task in tasks.values())


def here_executor(
    pipeline: Pipeline, connections: Mapping[str, Connection], member: int
) -> HereExecutor:
    """The executor of a pipeline's member; the pipeline's transform is left out."""
    return HereExecutor(read_spec(pipeline, connections, member))
