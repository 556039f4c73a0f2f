"""Whether a pipeline's rows fit the table that a DDL makes; no server is asked."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tidemark.errors import InvalidSettings, SchemaMismatch
from tidemark.model.upsert import Upsert
from tidemark.runs.job import movers_of, needed_of
from tidemark.settings.pipeline import Pipeline
from tidemark.settings.target import OnNewColumn
from tidemark.spark.cluster import find_project
from tidemark.spark.sample import transformed_sample
from tidemark.spark.specs import columns_given
from tidemark.staging.column import Column
from tidemark.staging.fit import differences, quoted
from tidemark.staging.keyed import refuse_unfit, refuse_unfit_types, stored
from tidemark.staging.mover import Mover, but
from tidemark.staging.refused import COORDINATES, refuse_without_coordinates
from tidemark.testing.ddl_table import DdlTable, statements_of, table_of
from tidemark.testing.errors import DdlTypesUnknown
from tidemark.testing.transform import refuse_registered, spark_session


def ddl_faults(pipeline: str | Path, ddl: str) -> list[str]:
    """Why rows of the pipeline do not fit the tables that the DDL makes; none if they do.

    `ddl` holds the CREATE TABLE of every target, and CREATE UNIQUE INDEX where an upsert needs one.
    Judged are the columns after the transform, by the rules of a run: names, types, NOT NULL,
    GENERATED, the key of an upsert. Not judged are rights, triggers, policies and foreign keys.

    Raises:
        InvalidSettings: the file or the transform can't be used; or the DDL lacks a target's table,
            can't be read, or says what only a server can judge (INHERITS, LIKE, ALTER TABLE, a
            type of one's own).
        TransformFailed, SchemaMismatch: see `run_transform`.
    """
    loaded = Pipeline.load(pipeline)
    refuse_registered(loaded)
    find_project(loaded.project)
    none = pa.Table.from_batches([], columns_given(loaded.decode))
    made = transformed_sample(loaded, none, spark_session)
    movers = movers_of(loaded, {name: rows.schema for name, rows in made.items()}).movers
    statements = statements_of(ddl)
    return [
        f"{mover.target}: {fault}"
        for mover in movers
        for fault in _faults(loaded, mover, table_of(statements, mover.target))
    ]


def _faults(pipeline: Pipeline, mover: Mover, table: DdlTable) -> Iterator[str]:
    if table.is_unlogged:
        yield "it is UNLOGGED: a crash of Postgres would empty it, but not the ledger"
    written = stored(mover.columns, mover.upsert) if mover.upsert else mover.columns
    passed_over = _passed_over(pipeline, mover, table)
    wanted = but(written, passed_over)
    if unknown := sorted(table.unknown & {column.name for column in wanted}):
        raise DdlTypesUnknown(target=str(mover.target), columns=tuple(unknown))
    for one in differences(wanted, table.columns):
        remedy = f" (ALTER TABLE {mover.target} {', '.join(one.actions)};)" if one.actions else ""
        yield f"{quoted(one.column)}: {one.fact}{remedy}"
    yield from _faults_of_mode(mover, wanted, table)


def _passed_over(pipeline: Pipeline, mover: Mover, table: DdlTable) -> frozenset[str]:
    """Columns that the table may lack, because the run adds them or leaves them out."""
    settings = pipeline.all_targets[mover.name]
    if settings.on_new_column is OnNewColumn.refuse:
        return frozenset()
    kept = {*COORDINATES, *needed_of(pipeline, mover.name)} | {
        *(mover.upsert.names if mover.upsert else ())
    }
    must = kept if settings.on_new_column is OnNewColumn.ignore else set()
    known = {own.name for own in table.columns}
    return frozenset(one.name for one in mover.columns if one.name not in known | must)


def _faults_of_mode(mover: Mover, columns: Sequence[Column], table: DdlTable) -> Iterator[str]:
    try:
        if mover.upsert:
            refuse_without_coordinates(columns, "mode: upsert", "mode: append")
            refuse_unfit({one.name: one.postgres_type for one in mover.columns}, mover.upsert)
            known = {own.name: own for own in table.columns}
            if all(name in known for name in mover.upsert.names if name != mover.upsert.deleted):
                refuse_unfit_types(mover.target, known, mover.upsert)
        elif mover.refused_become_dead_letters:
            refuse_without_coordinates(columns, "on_refused: dead_letter", "on_refused: stop")
    except (InvalidSettings, SchemaMismatch) as error:
        yield str(error)
    if mover.upsert and frozenset(mover.upsert.key) not in table.unique:
        yield f"it has no unique index on exactly ({_listed(mover.upsert)}), which an upsert needs"


def _listed(upsert: Upsert) -> str:
    return ", ".join(map(quoted, upsert.key))
