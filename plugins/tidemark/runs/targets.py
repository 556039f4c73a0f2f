"""From a pipeline and the columns of its rows to the writers of its targets, each in its mode."""

from collections.abc import Mapping

import pyarrow as pa

from tidemark.settings.pipeline import Pipeline
from tidemark.settings.target import OnNewColumn, OnRefused
from tidemark.staging.columns import columns_of
from tidemark.staging.target import Target
from tidemark.staging.target_writer import TargetWriter, TargetWriters


def writers_of(pipeline: Pipeline, schemas: Mapping[str, pa.Schema]) -> TargetWriters:
    """The writers of rows with these columns into the pipeline's targets, each in its mode.

    Raises:
        SchemaMismatch: Postgres can't hold a column.
    """
    return TargetWriters(
        tuple(
            TargetWriter(
                target=Target.parse(settings.table, name),
                columns=columns_of(schemas[name]),
                refused_become_dead_letters=settings.on_refused is OnRefused.dead_letter,
                upsert=pipeline.upsert_of(name),
                adds_columns=settings.on_new_column is OnNewColumn.add,
                ignores_columns=settings.on_new_column is OnNewColumn.ignore,
                needed=needed_of(pipeline, name),
                is_sent=name == pipeline.sent_target,
            )
            for name, settings in pipeline.all_targets.items()
        ),
        pipeline.dead_letters.kept_bytes,
    )


def needed_of(pipeline: Pipeline, name: str) -> frozenset[str]:
    """Columns that a target must have for the output topic, if its rows are sent there."""
    output = pipeline.output
    return frozenset(output.key if output and name == pipeline.sent_target else ())
