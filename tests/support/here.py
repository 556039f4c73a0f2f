"""The pool's reader and writer without its processes: for a look that nothing breaks."""

from collections.abc import Iterator, Mapping

from tests.support.pool import PoolExecutor
from tests.support.pool_task import PoolTask

from tidemark.model.batch import Attempt
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.specs import read_spec


class HereExecutor(PoolExecutor):
    """Runs a job's tasks in this process, one after another."""

    def _run(self, tasks: dict[int, PoolTask]) -> Iterator[Attempt]:
        return (task.run() for task in tasks.values())


def here_executor(
    pipeline: Pipeline, connections: Mapping[str, Connection], member: int
) -> HereExecutor:
    """The executor of a pipeline's member; the pipeline's transform is left out."""
    return HereExecutor(read_spec(pipeline, connections, member))
