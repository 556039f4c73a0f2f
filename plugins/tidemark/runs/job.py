"""What a member starts once there is something to drain."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.ledger import Ledger
from tidemark.model.batch import Attempt, Batch
from tidemark.model.offsets import Span
from tidemark.postgres.session import Cursor
from tidemark.postgres.transaction import transaction
from tidemark.staging.target_writer import TargetWriters

log = logging.getLogger(__name__)

WHY = "the pipeline file says target.on_new_column: add"


class JobExecutor(Protocol):
    """Runs the job of a batch and knows what it returns: Spark, or a pool in the crash harness."""

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        """Stage the rows of `spans`; return the winning attempts with their row counts."""

    def cancel(self) -> None:
        """Stop the running job, if any, and refuse further ones; safe from another thread."""

    def interrupt(self) -> None:
        """Stop the running job, if any: it fails; a later one may run. Safe from another thread."""

    def close(self) -> None:
        """Release what the executor holds."""

    def output_schemas(self) -> Mapping[str, pa.Schema]:
        """Columns of the transformed rows, by target; found without running a job."""

    def remarks(self) -> Sequence[str]:
        """What a person should know about the transformed rows; found without running a job."""

    def warm(self) -> None:
        """Start what every batch needs; wait a bounded time for it, and never raise."""

    def is_by_record(self) -> bool:
        """Whether each row is made of one record and bears its coordinates, as far as is known.

        Then the rows do not depend on where batches are cut.
        """


@dataclass(frozen=True, slots=True)
class Job:
    """The executor of a member's batches, and the target writers of the rows that it returns."""

    executor: JobExecutor
    target_writers: TargetWriters


def start_job(
    region: str,
    ledger: Ledger,
    executor_of: Callable[[], JobExecutor],
    writers_of: Callable[[Mapping[str, pa.Schema]], TargetWriters],
) -> Job:
    """Start the executor and its worker; the target is there and fits, before a batch is planned.

    Raises:
        Refused: the transform's columns can't be written, or don't fit the target.
        InvalidSettings: refused rows shall become dead letters, and would name no record.
    """
    executor = executor_of()
    try:
        target_writers = writers_of(executor.output_schemas())
        with transaction(ledger.engine, "target") as cursor:
            target_writers = fit_targets(cursor, region, target_writers, "a driver")
        executor.warm()
    except BaseException:
        executor.close()
        raise
    return Job(executor, target_writers)


def fit_targets(
    cursor: Cursor, region: str, target_writers: TargetWriters, who: str
) -> TargetWriters:
    """The targets take the rows of these writers; what columns that needed stands in the ledger.

    Raises:
        InvalidSettings, Refused, SchemaMismatch: see `TargetWriters.ensure_targets`.
    """
    if added := target_writers.add_columns(cursor):
        log.warning("region %s: new columns: %s", region, added)
        write_action(cursor, region, "add_columns", Order(who, WHY), added)
    target_writers = target_writers.without_unknown(cursor)
    target_writers.ensure_targets(cursor)
    return target_writers
