"""The way through the JVM: the rows of a DataFrame transform, staged by Spark's tasks."""
# ruff: noqa: TID253 -- imported only once there is something to read

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemark.errors import InvalidSettings
from tidemark.model.batch import ONLY
from tidemark.spark.columns import refuse_other_columns
from tidemark.spark.failure import marked
from tidemark.spark.source import Arrow, attempt_id
from tidemark.spark.transform import FrameTransform
from tidemark.spark.writer import WriteSpec, stage

_WINNER = pa.schema([("member", pa.int64()), ("attempt", pa.int64()), ("rows", pa.int64())])


def columns(rows: DataFrame) -> pa.Schema:
    """The frame's columns in Arrow."""
    return to_arrow_schema(rows.schema, timezone="UTC")


def transformed(transform: FrameTransform, frame: DataFrame) -> DataFrame:
    """What the transform returns.

    Raises:
        InvalidSettings: it is no DataFrame.
    """
    rows = transform(frame)
    if not isinstance(rows, DataFrame):
        raise InvalidSettings(
            f"the transform returned {type(rows).__name__}; it must return a DataFrame"
        )
    return rows


def staged(
    transform: FrameTransform, frame: DataFrame, spec: WriteSpec, token: str, what: str
) -> DataFrame:
    """A frame whose job stages what the transform makes; a row tells each attempt.

    No job runs here. Errors of ours leave its tasks marked with the token.

    Raises:
        InvalidSettings: the transform returns no DataFrame.
        SchemaMismatch: it returns other columns than at the start.
    """
    rows = transformed(transform, frame)
    refuse_other_columns(columns(rows), spec.schemas[ONLY], what)
    return rows.mapInArrow(_staging(spec, token), from_arrow_schema(_WINNER))


def _staging(spec: WriteSpec, token: str) -> Arrow:
    def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with marked(token):
            winner = stage(spec, ({ONLY: batch} for batch in batches), attempt_id())
        rows = winner.rows.get(ONLY, 0)
        row = {"member": winner.member, "attempt": winner.attempt, "rows": rows}
        yield pa.RecordBatch.from_pylist([row], schema=_WINNER)

    return staged
