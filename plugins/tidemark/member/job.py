"""What a member starts once there is something to drain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidemark.ledger.ledger import Ledger
from tidemark.model.batch import Executor
from tidemark.postgres.transaction import transaction
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.target import OnRefused
from tidemark.staging.column import Column
from tidemark.staging.columns import columns_of
from tidemark.staging.mover import Mover
from tidemark.staging.target import Target


class JobExecutor(Executor, Protocol):
    """An executor that knows what its job returns."""

    def output_schema(self) -> pa.Schema:
        """Columns of the transformed rows; found without running a job."""

    def remarks(self) -> Sequence[str]:
        """What a person should know about the transformed rows; found without running a job."""

    def warm(self) -> None:
        """What every batch needs has started, or too long has passed; nothing fails here."""

    def is_by_record(self) -> bool:
        """Whether each row is made of one record and bears its coordinates, as far as is known.

        Then the rows do not depend on where batches are cut.
        """


@dataclass(frozen=True, slots=True)
class Job:
    """The executor of a member's batches, and the mover of the rows that it returns."""

    executor: JobExecutor
    mover: Mover


def start_job(pipeline: Pipeline, ledger: Ledger, executor_of: Callable[[], JobExecutor]) -> Job:
    """Start the executor and its worker; the target is there and fits, before a batch is planned.

    Raises:
        Refused: the transform's columns can't be written, or don't fit the target.
        InvalidSettings: refused rows shall become dead letters, and would name no record.
    """
    executor = executor_of()
    try:
        columns = columns_of(executor.output_schema())
        mover = mover_of(pipeline, columns)
        with transaction(ledger.engine, "target") as cursor:
            mover.ensure_target(cursor)
        executor.warm()
    except BaseException:
        executor.close()
        raise
    return Job(executor, mover)


def mover_of(pipeline: Pipeline, columns: Sequence[Column]) -> Mover:
    """The mover of rows with these columns into the pipeline's target, in its mode."""
    settings = pipeline.target
    is_set_aside = settings.on_refused is OnRefused.dead_letter
    return Mover(Target.parse(settings.table), columns, is_set_aside, settings.upsert)
