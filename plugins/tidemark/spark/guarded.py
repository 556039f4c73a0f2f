"""A decoder of the user's own, whose answers are believed only as far as they can be checked."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemark.decode.port import MAX_DETAIL, Decoded, Decoder, Rejected
from tidemark.errors import TidemarkError
from tidemark.spark.cause import cause
from tidemark.spark.errors import (
    AnswerPart,
    OwnDecoderColumnsDiffer,
    OwnDecoderIndicesOdd,
    OwnDecoderMiscounted,
    OwnDecoderRaised,
    OwnDecoderReasonOdd,
    OwnDecoderReordered,
    OwnDecoderReturnedOther,
    OwnDecoderRowsInvalid,
    OwnDecoderRowsMiscounted,
)

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
            raise OwnDecoderRaised(decoder=self._name, cause=cause(error)) from None

    def _believed(self, found: Any, count: int) -> Decoded:
        if not isinstance(found, Decoded):
            raise self._other("answer", found)
        kept, rejected = self._indices(found.kept), [self._checked(one) for one in found.rejected]
        self._refuse_rows(found.rows, len(kept))
        refused = [one.index for one in rejected]
        if sorted([*kept, *refused]) != list(range(count)):
            raise OwnDecoderMiscounted(
                decoder=self._name, given=count, kept=len(kept), rejected=len(refused)
            )
        if kept != sorted(kept):
            raise OwnDecoderReordered(decoder=self._name)
        rejected.sort(key=lambda one: one.index)
        return Decoded(found.rows, pa.array(kept, pa.int64()), rejected)

    def _refuse_rows(self, rows: Any, kept: int) -> None:
        if not isinstance(rows, pa.RecordBatch):
            raise self._other("rows", rows)
        if not rows.schema.equals(self.schema):
            raise OwnDecoderColumnsDiffer(
                decoder=self._name, returned=str(rows.schema), told=str(self.schema)
            )
        if rows.num_rows != kept:
            raise OwnDecoderRowsMiscounted(decoder=self._name, rows=rows.num_rows, kept=kept)
        try:
            rows.validate(full=True)
        except pa.ArrowException as error:
            raise OwnDecoderRowsInvalid(decoder=self._name, cause=str(error)) from None

    def _indices(self, kept: Any) -> list[int]:
        indices = kept.to_pylist() if isinstance(kept, pa.Array) else list(kept)
        if not all(type(index) is int for index in indices):
            raise OwnDecoderIndicesOdd(decoder=self._name)
        return indices

    def _checked(self, one: Any) -> Rejected:
        """The rejection, in words that the ledger can keep."""
        if not isinstance(one, Rejected) or type(one.index) is not int:
            raise self._other("rejection", one)
        if not _REASON.fullmatch(str(one.reason)):
            raise OwnDecoderReasonOdd(decoder=self._name, reason=repr(one.reason))
        detail = str(one.detail).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        return Rejected(one.index, one.reason, detail[:MAX_DETAIL])

    def _other(self, part: AnswerPart, found: Any) -> OwnDecoderReturnedOther:
        return OwnDecoderReturnedOther(decoder=self._name, part=part, returned=type(found).__name__)
