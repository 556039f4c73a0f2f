"""What a transform makes of a few rows, in this process: for previews and for users' tests."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.errors import TidemarkError
from tidemark.model.batch import ONLY
from tidemark.settings.sections import NamedTransform
from tidemark.spark._failure import failed, new_token
from tidemark.spark._frame import columns, shape_of, transformed
from tidemark.spark._plans import as_source, refuse_cuts
from tidemark.spark.source import wire_schema
from tidemark.spark.transform import (
    ArrowTransform,
    FrameTransform,
    refuse_other_columns,
    transform_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transformed_sample(
    named: NamedTransform | None, rows: pa.Table, spark: Callable[[], "SparkSession"]
) -> dict[str, pa.Table]:
    """The rows of each target after the transform; Spark is asked for if it is one of DataFrames.

    As in a run the transform is given no rows first: its columns are those that it returns then.

    Raises:
        TransformFailed: the transform can't be imported, or raises.
        IncompleteRead: it cuts its rows.
        InvalidSettings: it returns no DataFrame, or no record batch.
        SchemaMismatch: its columns depend on the data.
        JobFailed: Spark failed.
    """
    transform = transform_of(named)
    if named is None or transform is None:
        return {ONLY: rows}
    if isinstance(transform, ArrowTransform):
        return _of_arrow(transform, rows)
    return _of_frames(transform, rows, named.targets, spark())


def is_by_record(
    named: NamedTransform | None, given: pa.Schema, spark: Callable[[], "SparkSession"]
) -> bool:
    """Whether each row is made of one record, as far as can be told: of Arrow nothing is known."""
    transform = transform_of(named)
    if named is None or transform is None or isinstance(transform, ArrowTransform):
        return True
    source = as_source(spark().createDataFrame(given.empty_table()))
    try:
        return shape_of(transformed(transform, source, named.targets), source).is_by_record
    except TidemarkError:
        raise
    except Exception as error:
        raise failed(error, new_token()) from error


def listed(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows as Python has them; a column with a time that Python does not have is of texts."""
    columns = [_with_texts(column) for column in rows.columns]
    found: list[dict[str, Any]] = pa.Table.from_arrays(columns, rows.column_names).to_pylist()
    return found


def _with_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_temporal(column.type):
        return column
    try:
        column.to_pylist()
    except (OverflowError, ValueError):
        return column.cast(pa.string())
    return column


def _of_arrow(transform: ArrowTransform, rows: pa.Table) -> dict[str, pa.Table]:
    given = rows.cast(wire_schema(rows.schema))
    schemas = transform.schemas(given.schema)
    made = [*transform.rows(given.to_batches(), schemas, "preview")]
    return {
        name: pa.Table.from_batches([parts[name] for parts in made], schema)
        for name, schema in schemas.items()
    }


def _of_frames(
    transform: FrameTransform, rows: pa.Table, targets: tuple[str, ...], spark: "SparkSession"
) -> dict[str, pa.Table]:
    def made_of(some: pa.Table) -> dict[str, "DataFrame"]:
        parts = transformed(transform, as_source(spark.createDataFrame(some)), targets)
        for made in parts.values():
            refuse_cuts(made)
        return parts

    try:
        at_start, parts = made_of(rows.slice(0, 0)), made_of(rows)
        for name, made in parts.items():
            refuse_other_columns(columns(made), columns(at_start[name]), "preview", name)
        return {name: made.toArrow() for name, made in parts.items()}
    except TidemarkError:
        raise
    except Exception as error:
        raise failed(error, new_token()) from error
