"""What decoding gives: the rows, where they came from, and the rejected with their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

MAX_VALUE_BYTES = 16 * 1024 * 1024
MAX_DETAIL = 300


class Reason(StrEnum):
    """Why a value is no row; stored with its dead letter."""

    NULL_VALUE = "NULL_VALUE"
    EMPTY_VALUE = "EMPTY_VALUE"
    TOO_LARGE = "TOO_LARGE"
    INVALID_UTF8 = "INVALID_UTF8"
    INVALID_JSON = "INVALID_JSON"
    TRAILING_DATA = "TRAILING_DATA"
    NOT_AN_OBJECT = "NOT_AN_OBJECT"
    TOO_DEEP = "TOO_DEEP"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    WRONG_TYPE = "WRONG_TYPE"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    NUL_IN_TEXT = "NUL_IN_TEXT"
    NOT_FRAMED = "NOT_FRAMED"
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA"
    OTHER_SCHEMA = "OTHER_SCHEMA"
    INVALID_AVRO = "INVALID_AVRO"
    INVALID_PROTOBUF = "INVALID_PROTOBUF"
    NEW_FIELD = "NEW_FIELD"
    NOT_A_CHANGE = "NOT_A_CHANGE"
    UNAVAILABLE = "UNAVAILABLE"
    UNREADABLE = "UNREADABLE"


class Refusal(Exception):
    """A value, or a block of values, cannot become rows."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail[:MAX_DETAIL]

    def of(self, index: int) -> "Rejected":
        """The value at `index`, refused for this."""
        return Rejected(index, self.reason, self.detail)


@dataclass(frozen=True, slots=True)
class Rejected:
    """One value that is no row: its index among the values, and why."""

    index: int
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The good rows in order, their indices among the values, and the others in order.

    `len(kept) + len(rejected)` is the number of values; `kept[i]` is where row i came from.
    """

    rows: pa.RecordBatch
    kept: pa.Int64Array
    rejected: list[Rejected]


def within(value: bytes | None, max_bytes: int, *, may_be_empty: bool = False) -> bytes:
    """The value, if it has bytes, and not too many.

    Raises:
        Refusal: it has not.
    """
    if value is None:
        raise Refusal(Reason.NULL_VALUE, "the record has no value")
    if not value and not may_be_empty:
        raise Refusal(Reason.EMPTY_VALUE, "the value is empty")
    if len(value) > max_bytes:
        raise Refusal(Reason.TOO_LARGE, f"{len(value)} bytes, limit {max_bytes}")
    return value


def in_order(batches: Sequence[pa.RecordBatch], kept: Sequence[int]) -> pa.RecordBatch:
    """The rows of all batches, by the indices that were kept of their values."""
    table = pa.Table.from_batches(batches).combine_chunks()
    if kept != sorted(kept):
        order = pc.array_sort_indices(pa.array(kept, pa.int64()))
        table = table.take(order)
    return next(iter(table.combine_chunks().to_batches()), batches[-1])
