"""Whether the rows of a job would fit the targets, as far as that is known without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from tidemark.postgres.session import Cursor
from tidemark.postgres.transaction import autocommit
from tidemark.runs.region import Connections, ledger_of
from tidemark.runs.schemas import in_use, would_take
from tidemark.runs.targets import writers_of
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.registered import registered
from tidemark.staging.target_writer import TargetWriter, TargetWriters

if TYPE_CHECKING:
    import pyarrow as pa


def with_columns_in_use(pipeline: Pipeline, connections: Connections) -> Pipeline:
    """The pipeline with its columns, where a registry says them; see `in_use`."""
    if not registered(pipeline):
        return pipeline
    with ledger_of(connections[pipeline.warehouse]) as ledger:
        return in_use(pipeline, connections, ledger)


def known_schemas(pipeline: Pipeline, connections: Connections) -> "Mapping[str, pa.Schema] | None":
    """The columns of the rows, by target; None where only Spark can tell, for its DataFrames.

    Raises:
        InvalidSettings, TransformFailed, JobFailed: see `transform_of` and `direct_schemas`.
    """
    from tidemark.spark.source import direct_schemas
    from tidemark.spark.specs import read_spec
    from tidemark.spark.transform import ArrowTransform, transform_of

    transform = transform_of(pipeline)
    if not isinstance(transform, ArrowTransform | None):
        return None
    return direct_schemas(read_spec(pipeline, connections), transform)


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

    Rows of a DataFrame transform are left to the first run that has some.

    Raises:
        InvalidSettings, Refused, SchemaMismatch: see `would_fit`.
    """
    with ledger_of(connections[pipeline.warehouse]) as ledger:
        opened = would_take(pipeline, connections, ledger)
        schemas = known_schemas(opened, connections)
        if schemas is not None:
            would_fit(opened, ledger.engine, schemas)


def would_fit(pipeline: Pipeline, engine: Engine, schemas: "Mapping[str, pa.Schema]") -> Fit:
    """What a run would make of the targets; nothing is made.

    Raises:
        InvalidSettings, Refused, SchemaMismatch: see `TargetWriters.ensure_targets`.
    """
    writers = writers_of(pipeline, schemas)
    with autocommit(engine) as cursor:
        cursor.execute("BEGIN")
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
