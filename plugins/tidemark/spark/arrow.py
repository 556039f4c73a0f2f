"""An Arrow transform: a function of one record batch, called where the rows are decoded.

No row of it crosses the JVM, and nothing here needs Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemark.errors import InvalidSettings, JobFailed, TransformFailed
from tidemark.model.batch import ONLY
from tidemark.spark.by_target import by_target
from tidemark.spark.cause import cause
from tidemark.spark.columns import refuse_other_columns

_REMEDIES = {
    "Table": "; of a table make a batch by pyarrow.RecordBatch.from_arrays("
    "[column.combine_chunks() for column in table.columns], schema=table.schema)",
    "NoneType": "; is a return missing?",
}


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
        made = self._made(empty, " with the empty batch that tells its columns")
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
                of = f"{what}, target {name}" if name else what
                refuse_other_columns(part.schema, schemas[name], of)
            yield made

    def _made(self, batch: pa.RecordBatch, where: str = "") -> dict[str, pa.RecordBatch]:
        try:
            made = self.function(batch)
        except Exception as error:
            may_pass = isinstance(error, (OSError, MemoryError))
            raise (JobFailed if may_pass else TransformFailed)(
                f"the transform failed{where}: {cause(error)}. Correct it, then run again;"
                " nothing of the batch became visible"
            ) from None
        parts = by_target(made, self.targets, "pyarrow.RecordBatch")
        for name, part in parts.items():
            _refuse_others(part, f" for target {name}" if name else "")
        return parts


def _refuse_others(made: Any, where: str) -> None:
    if not isinstance(made, pa.RecordBatch):
        kind = type(made).__name__
        raise InvalidSettings(
            f"the transform returned {kind}{where}; it must return a pyarrow.RecordBatch"
            f"{_REMEDIES.get(kind, '')}"
        )
