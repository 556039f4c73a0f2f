"""The way through the JVM: the rows of a DataFrame transform, staged by Spark's tasks.

The DataFrames of several targets are one union, so one job: Spark plans and computes them together,
each task is of one of them, and a moment that they all ask for is the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemark.model.batch import ONLY, Attempt
from tidemark.spark._failure import marked
from tidemark.spark._plans import is_by_record, refuse_cuts, varying
from tidemark.spark._writer import Parts, WriteSpec, stage
from tidemark.spark.errors import TransformReturnedOther, TransformRowsVary
from tidemark.spark.source import Arrow, attempt_id
from tidemark.spark.transform import FrameTransform, by_target, refuse_other_columns

# ruff: noqa: TID253 -- imported only once there is something to read


_WINNER = pa.schema(
    [("member", pa.int64()), ("attempt", pa.int64()), ("target", pa.string()), ("rows", pa.int64())]
)
_TARGET = "tidemark target"
"""The column of the union that says whose row it is; the others are structs, one a target."""

Frames = Mapping[str, DataFrame]
"""Rows by the name of their target."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a transform returns, found without a job."""

    schemas: dict[str, pa.Schema]
    remarks: tuple[str, ...]
    """What a person should know about it."""
    is_by_record: bool
    """Whether each row is made of one record, whose coordinates it bears."""


def shape_of(parts: Frames, source: DataFrame) -> Shape:
    """The shape of the frames that a transform made of the source.

    Raises:
        IncompleteRead: one of them cuts its rows.
    """
    remarks = [remark for rows in parts.values() for remark in refuse_cuts(rows)]
    return Shape(
        {name: columns(rows) for name, rows in parts.items()},
        tuple(dict.fromkeys(remarks)),
        all(is_by_record(rows, source) for rows in parts.values()),
    )


def columns(rows: DataFrame) -> pa.Schema:
    """The frame's columns in Arrow."""
    return to_arrow_schema(rows.schema, timezone="UTC")


def transformed(
    transform: FrameTransform, frame: DataFrame, targets: Sequence[str] = (ONLY,)
) -> dict[str, DataFrame]:
    """What the transform returns, by target.

    Raises:
        InvalidSettings: it is no DataFrame, or not one for each target; or several of them vary
            from one use to the next.
    """
    parts = by_target(transform(frame), targets, "DataFrame")
    for name, rows in parts.items():
        if not isinstance(rows, DataFrame):
            raise TransformReturnedOther(
                returned=type(rows).__name__, wanted="DataFrame", target=name
            )
    if len(found := tuple(name for name, rows in parts.items() if varying(rows))) > 1:
        raise TransformRowsVary(targets=found)
    return parts


def staged(parts: Frames, spec: WriteSpec, token: str, what: str) -> DataFrame:
    """A frame whose job stages what the transform made; its rows tell the attempts.

    No job runs here. Errors of ours leave its tasks marked with the token.

    Raises:
        SchemaMismatch: it returned other columns than at the start.
    """
    for name, rows in parts.items():
        refuse_other_columns(columns(rows), spec.schemas[name], what, name)
    return _together(parts).mapInArrow(_staging(spec, token), from_arrow_schema(_WINNER))


def attempts(told: Iterable[Row]) -> list[Attempt]:
    """The attempts that the rows of the job tell."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    for member, attempt, target, rows in told:
        found.setdefault((member, attempt), {})[target] = rows
    return [Attempt(*key, rows) for key, rows in found.items()]


def _together(parts: Frames) -> DataFrame:
    if tuple(parts) == (ONLY,):
        return parts[ONLY]
    return reduce(DataFrame.union, (_of_union(name, parts) for name in parts))


def _of_union(name: str, parts: Frames) -> DataFrame:
    own = parts[name]
    quoted = ("`" + column.replace("`", "``") + "`" for column in own.columns)
    row = F.struct(*map(F.col, quoted))
    structs = [row if other == name else F.lit(None).cast(rows.schema)
               for other, rows in parts.items()]  # fmt: skip
    named = [column.alias(f"row {number}") for number, column in enumerate(structs)]
    return own.select(F.lit(name).alias(_TARGET), *named)


def _staging(spec: WriteSpec, token: str) -> Arrow:
    def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = tuple(spec.schemas)
        with marked(token):
            winner = stage(spec, (_parts(batch, names) for batch in batches), attempt_id())
        key = {"member": winner.member, "attempt": winner.attempt}
        rows = [key | {"target": name, "rows": winner.rows.get(name, 0)} for name in names]
        yield pa.RecordBatch.from_pylist(rows, schema=_WINNER)

    return staged


def _parts(batch: pa.RecordBatch, names: tuple[str, ...]) -> Parts:
    if names == (ONLY,):
        return {ONLY: batch}
    parts = {}
    for place, name in enumerate(names, start=1):
        rows = batch.filter(pc.equal(batch.column(0), name)).column(place)
        fields = [field.name for field in rows.type]
        parts[name] = pa.RecordBatch.from_arrays(rows.flatten(), fields)
    return parts
