"""An Arrow transform: a function of one record batch, called where the rows are decoded.

No row of it crosses the JVM, and nothing here needs Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemark.model.batch import ONLY
from tidemark.spark.by_target import by_target
from tidemark.spark.cause import cause
from tidemark.spark.columns import refuse_other_columns
from tidemark.spark.errors import (
    TransformRaised,
    TransformRaisedForNow,
    TransformReturnedOther,
)


@dataclass(frozen=True, slots=True)
class ArrowTransform:
    """The user's function. Pickled it is its name: the process that unpickles it imports it."""

    function: Callable[[pa.RecordBatch], Any]
    targets: tuple[str, ...] = (ONLY,)
    """The targets that it makes rows for: of several it returns a mapping, of one the batch."""

    def schemas(self, given: pa.Schema) -> dict[str, pa.Schema]:
        """The columns that it returns for each target, found with an empty batch of `given`.

        Raises:
            TransformFailed: it raises.
            JobFailed: memory ran out, or what it asked did not answer.
            InvalidSettings: it returns no record batch, or not one for each target.
        """
        empty = pa.RecordBatch.from_pylist([], schema=given)
        made = self._made(empty, with_empty=True)
        return {name: batch.schema for name, batch in made.items()}

    def rows(
        self, batches: Iterable[pa.RecordBatch], schemas: Mapping[str, pa.Schema], what: str
    ) -> Iterator[dict[str, pa.RecordBatch]]:
        """What it makes of each batch, by target; all of them are taken.

        Raises:
            TransformFailed, JobFailed, InvalidSettings: as `schemas`.
            SchemaMismatch: it returns other columns than `schemas`.
        """
        for batch in batches:
            made = self._made(batch)
            for name, part in made.items():
                refuse_other_columns(part.schema, schemas[name], what, name)
            yield made

    def _made(
        self, batch: pa.RecordBatch, *, with_empty: bool = False
    ) -> dict[str, pa.RecordBatch]:
        try:
            made = self.function(batch)
        except Exception as error:
            may_pass = isinstance(error, (OSError, MemoryError))
            kind = TransformRaisedForNow if may_pass else TransformRaised
            raise kind(cause=cause(error), with_empty=with_empty) from None
        parts = by_target(made, self.targets, "pyarrow.RecordBatch")
        for name, part in parts.items():
            if not isinstance(part, pa.RecordBatch):
                raise TransformReturnedOther(
                    returned=type(part).__name__, wanted="pyarrow.RecordBatch", target=name
                )
        return parts
