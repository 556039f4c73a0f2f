"""An Arrow transform: a function of one record batch, called where the rows are decoded.

No row of it crosses the JVM, and nothing here needs Spark.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemark.errors import InvalidSettings, JobFailed, TransformFailed
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

    function: Callable[[pa.RecordBatch], pa.RecordBatch]

    def schema(self, given: pa.Schema) -> pa.Schema:
        """The columns that it returns, found with an empty batch of the columns `given`.

        Raises:
            TransformFailed: it raises.
            JobFailed: memory ran out, or what it asked did not answer.
            InvalidSettings: it returns no record batch.
        """
        empty = pa.RecordBatch.from_pylist([], schema=given)
        return self._made(empty, " with the empty batch that tells its columns").schema

    def rows(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, what: str
    ) -> Iterator[pa.RecordBatch]:
        """What it makes of each batch; all of them are taken.

        Raises:
            TransformFailed, JobFailed, InvalidSettings: as `schema`.
            SchemaMismatch: it returns other columns than `schema`.
        """
        for batch in batches:
            made = self._made(batch)
            refuse_other_columns(made.schema, schema, what)
            yield made

    def _made(self, batch: pa.RecordBatch, where: str = "") -> pa.RecordBatch:
        try:
            made = self.function(batch)
        except Exception as error:
            may_pass = isinstance(error, (OSError, MemoryError))
            raise (JobFailed if may_pass else TransformFailed)(
                f"the transform failed{where}: {cause(error)}. Correct it, then run again;"
                " nothing of the batch became visible"
            ) from None
        if not isinstance(made, pa.RecordBatch):
            kind = type(made).__name__
            raise InvalidSettings(
                f"the transform returned {kind}; it must return a pyarrow.RecordBatch"
                f"{_REMEDIES.get(kind, '')}"
            )
        return made
