"""Left out: columns of the rows that the target lacks, where the pipeline passes over them.

They are staged as all others and not published. What tells rows apart, orders them or says which
record they are of is never left out: without it the table is refused, as where nothing would be
left to publish.
"""

from collections.abc import Collection, Sequence

from psycopg2.extensions import cursor as Cursor

from tidemark.model.upsert import Upsert
from tidemark.settings.target import OnNewColumn, TargetSettings
from tidemark.staging.catalog import find_columns
from tidemark.staging.column import Column
from tidemark.staging.refused_records import COORDINATES
from tidemark.staging.target import Target


def left_out(
    cursor: Cursor,
    target: Target,
    columns: Sequence[Column],
    upsert: Upsert | None,
    needed: Collection[str] = (),
) -> frozenset[str]:
    """The names of what the table lacks and does without; none of a table that is not there."""
    known = {own.name for own in find_columns(cursor, target.schema, target.table)}
    must = {*COORDINATES, *needed, *(upsert.names if upsert else ())}
    missing = frozenset(one.name for one in columns if one.name not in known | must)
    is_some_left = any(one.name not in missing for one in columns)
    return missing if known and is_some_left else frozenset()


def but(columns: Sequence[Column], names: Collection[str]) -> tuple[Column, ...]:
    """The columns without those of these names."""
    return tuple(column for column in columns if column.name not in names)


def published(
    cursor: Cursor, target: Target, columns: Sequence[Column], settings: TargetSettings
) -> Sequence[Column]:
    """Those of the rows' columns that a run with these settings publishes."""
    if settings.on_new_column is not OnNewColumn.ignore:
        return columns
    return but(columns, left_out(cursor, target, columns, settings.upsert))
