"""Whether the rows of a job would fit the targets, as far as that is known without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from tidemark.postgres.session import Cursor, configure
from tidemark.postgres.transaction import autocommit
from tidemark.runs.region import ledger_of
from tidemark.runs.schemas import in_use, would_take
from tidemark.runs.targets import writers_of
from tidemark.settings.endpoints import Connections, Endpoints
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import registered
from tidemark.staging.target_writer import TargetWriter, TargetWriters

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemark.spark.specs import JobSpec


def with_columns_in_use(pipeline: Pipeline, connections: Connections) -> Pipeline:
    """The pipeline with its columns, where a registry says them; see `in_use`."""
    if not registered(pipeline):
        return pipeline
    endpoints = Endpoints.of(pipeline, connections)
    with ledger_of(endpoints.warehouse) as ledger:
        return in_use(pipeline, endpoints.registries, ledger)


def known_schemas(spec: "JobSpec") -> "Mapping[str, pa.Schema] | None":
    """The columns of a job's rows, by target; None where only Spark can tell, for its DataFrames.

    Raises:
        InvalidSettings, TransformFailed, JobFailed: see `transform_of` and `direct_schemas`.
    """
    from tidemark.spark.source import direct_schemas
    from tidemark.spark.transform import ArrowTransform, transform_of

    transform = transform_of(spec.transform)
    if not isinstance(transform, ArrowTransform | None):
        return None
    return direct_schemas(spec.reading, transform)


@dataclass(frozen=True, slots=True)
class Fit:
    """Rows that fit the targets."""

    tables: Sequence[tuple[TargetWriter, bool]]
    """Each target's writer, with whether a run would make the table."""
    added: Mapping[str, Mapping[str, str]]
    """Columns that a run would add, with their types, by table."""
    remarks: Sequence[str] = ()
    """What a run would not publish."""


def refuse_unfit(pipeline: Pipeline, connections: Connections) -> None:
    """Refuse settings whose rows do not fit, before a run accepts them that may have none to write.

    Rows of a DataFrame transform are left to the first run that has some; the decoder is made.

    Raises:
        InvalidSettings, Refused, SchemaMismatch: see `would_fit` and `read_spec`.
    """
    from tidemark.spark.specs import job_spec

    endpoints = Endpoints.of(pipeline, connections)
    with ledger_of(endpoints.warehouse) as ledger:
        opened = would_take(pipeline, endpoints.registries, ledger)
        schemas = known_schemas(job_spec(opened, endpoints))
        if schemas is not None:
            would_fit(ledger.engine, writers_of(opened, schemas))


LOOK_WAITS = "3s"
"""Who waits for a table that lacks columns holds up all who come after it."""


def would_fit(engine: Engine, writers: TargetWriters) -> Fit:
    """What a run would make of the targets; nothing is made, and nobody waits for it.

    Raises:
        InvalidSettings, Refused, SchemaMismatch: see `TargetWriters.ensure_targets`.
        Unreachable: somebody holds a table for longer than a look may wait.
    """
    with autocommit(engine) as cursor:
        cursor.execute("BEGIN")
        configure(cursor, {"lock_timeout": LOOK_WAITS}, is_local=True)
        try:
            return fit(cursor, writers)
        finally:
            cursor.execute("ROLLBACK")


def fit(cursor: Cursor, writers: TargetWriters) -> Fit:
    """What a run makes of the targets, in the caller's transaction; raises as `would_fit`."""
    added = writers.add_columns(cursor)
    writers = writers.without_unknown(cursor)
    created = writers.ensure_targets(cursor)
    return Fit([(one, created[one.name]) for one in writers.writers], added, writers.remarks())
