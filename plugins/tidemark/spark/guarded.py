"""A decoder of the user's own, whose answers are believed only as far as they can be checked."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemark.decode.outcome import MAX_DETAIL, Decoded, Rejected
from tidemark.decode.port import Decoder
from tidemark.errors import JobFailed, TidemarkError
from tidemark.spark.cause import cause

_REASON = re.compile(r"[A-Z][A-Z0-9_]{0,39}")


class GuardedDecoder:
    """Each value is a row or rejected, once; else the job fails and nothing is visible."""

    def __init__(self, own: Decoder, schema: pa.Schema, name: str) -> None:
        self.schema = schema
        self._own = own
        self._name = name

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the user's decoder makes of the values.

        Raises:
            JobFailed: it raises, or its answer is not one row or rejection for each value.
        """
        try:
            return self._believed(self._own.decode(values), len(values))
        except TidemarkError:
            raise
        except Exception as error:
            raise self._failed(f"raised: {cause(error)}") from None

    def _believed(self, found: Any, count: int) -> Decoded:
        if not isinstance(found, Decoded):
            raise self._failed(f"returned {type(found).__name__} in place of Decoded")
        kept, rejected = self._indices(found.kept), [self._checked(one) for one in found.rejected]
        self._refuse_rows(found.rows, len(kept))
        refused = [one.index for one in rejected]
        if sorted([*kept, *refused]) != list(range(count)):
            raise self._failed(
                f"was given {count} values and named {len(kept)} as rows and {len(refused)}"
                " as rejected: each must be named once, by its index"
            )
        if kept != sorted(kept):
            raise self._failed("gave rows in another order than their values")
        rejected.sort(key=lambda one: one.index)
        return Decoded(found.rows, pa.array(kept, pa.int64()), rejected)

    def _refuse_rows(self, rows: Any, kept: int) -> None:
        if not isinstance(rows, pa.RecordBatch):
            raise self._failed(f"returned rows as {type(rows).__name__}, not as a RecordBatch")
        if not rows.schema.equals(self.schema):
            raise self._failed(f"returned the columns\n{rows.schema}\nand told\n{self.schema}")
        if rows.num_rows != kept:
            raise self._failed(f"returned {rows.num_rows} rows and named {kept} values as kept")
        try:
            rows.validate(full=True)
        except pa.ArrowException as error:
            raise self._failed(f"returned rows that Arrow finds invalid: {error}") from None

    def _indices(self, kept: Any) -> list[int]:
        indices = kept.to_pylist() if isinstance(kept, pa.Array) else list(kept)
        if not all(type(index) is int for index in indices):
            raise self._failed("named kept values by something else than whole numbers")
        return indices

    def _checked(self, one: Any) -> Rejected:
        """The rejection, in words that the ledger can keep."""
        if not isinstance(one, Rejected) or type(one.index) is not int:
            raise self._failed(f"rejected by {type(one).__name__}, not by Rejected with an index")
        if not _REASON.fullmatch(str(one.reason)):
            raise self._failed(f"rejected for {one.reason!r}: a reason is like WRONG_TYPE")
        detail = str(one.detail).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        return Rejected(one.index, one.reason, detail[:MAX_DETAIL])

    def _failed(self, fact: str) -> JobFailed:
        return JobFailed(
            f"the decoder {self._name} {fact}. Correct it, then run again; nothing of the batch"
            " became visible"
        )
