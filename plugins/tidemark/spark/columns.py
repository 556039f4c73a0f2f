"""The columns of rows: one spelling for all, and the same in each batch as at the start."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemark.spark.errors import TransformColumnsVary


def spelled(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows, with their columns as `schema` spells them."""
    for batch in batches:
        yield batch if batch.schema.equals(schema) else batch.cast(schema)


def refuse_other_columns(found: pa.Schema, expected: pa.Schema, what: str, target: str) -> None:
    """The transform has returned the columns that it returned at the start.

    Raises:
        SchemaMismatch: it has not; names both, and `what` was drained.
    """
    if found != expected:
        raise TransformColumnsVary(
            what=what, target=target, found=_named(found), at_start=_named(expected)
        )


def _named(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(
        f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )
