"""The port of decoding: what every format is, what one is made of, and what it gives.

It gives the rows, where they came from, and the rejected with their reasons. What a decoder raises
over is one value's fault, and costs that value alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.errors import TidemarkError

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
    NO_DECLARED_FIELD = "NO_DECLARED_FIELD"
    DELETION = "DELETION"
    NOT_A_CHANGE = "NOT_A_CHANGE"
    UNAVAILABLE = "UNAVAILABLE"
    OLD_KEY_UNKNOWN = "OLD_KEY_UNKNOWN"
    KEY_CHANGED = "KEY_CHANGED"
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

    Each value is kept or rejected; `kept[i]` is where row i came from. An update that changes a
    key is two rows side by side, see `OldKey`.
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


def refusing(found: Decoded, refused: Mapping[int, Refusal]) -> Decoded:
    """The same without these of its rows, which are rejected."""
    if not refused:
        return found
    good = pa.array([row not in refused for row in range(len(found.rows))], pa.bool_())
    more = [refusal.of(found.kept[row].as_py()) for row, refusal in refused.items()]
    rejected = sorted([*found.rejected, *more], key=lambda one: one.index)
    return Decoded(found.rows.filter(good), found.kept.filter(good), rejected)


def in_order(batches: Sequence[pa.RecordBatch], kept: Sequence[int]) -> pa.RecordBatch:
    """The rows of all batches, by the indices that were kept of their values."""
    table = pa.Table.from_batches(batches).combine_chunks()
    if kept != sorted(kept):
        order = pc.array_sort_indices(pa.array(kept, pa.int64()))
        table = table.take(order)
    return next(iter(table.combine_chunks().to_batches()), batches[-1])


class Decoder(Protocol):
    """Values of records become rows; a record's fate does not depend on its neighbours."""

    schema: pa.Schema
    """The columns of the rows; every one may be null."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode what can be decoded, name the rest; None is a record without a value."""


@dataclass(frozen=True, slots=True)
class OldKey:
    """Which updates of change events give the row before, too: as a deletion of its key."""

    columns: tuple[str, ...]
    """Those that change one of these; columns of the value."""
    is_key: bool = True
    """Whether they are of the target's key, and so must be known of the row before. Else a
    transform makes the key of them."""
    is_refused: bool = False
    """Whether such an update is rejected, for the targets don't take a deletion by itself."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What a decoder is made of; it travels pickled to the tasks, secrets and all."""

    format: str
    """One of Tidemark's, or module:Class."""
    declared: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The declared fields; none where a format takes none."""
    takes_null: bool = False
    """Whether a record without a value is a row of nulls; else it is rejected."""
    framing: str | None = None
    """registry: the id of a schema stands in front of each value; headers: in a header."""
    envelope: str | None = None
    """debezium: a value is a change event, and its row is wanted; connect: it may be a payload."""
    placeholder: str | None = None
    """What Debezium writes for a value that it does not know; none: its own, of an envelope."""
    refuses_new: bool = False
    """Whether a record with a field that is not declared is rejected; else that is passed over."""
    takes_no_field: bool = False
    """Whether a record with none of the declared fields is a row of nulls; else it is rejected."""
    refuses_deletion: bool = False
    """Whether a flattened event that says it is a deletion, in a field that is not declared, is
    rejected; else it is the row that was deleted."""
    source: tuple[str, ...] = ()
    """What of the event's source is wanted as columns."""
    old_key: OldKey | None = None
    """With an envelope: when the row before is given, too; None: never."""
    registry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The configuration of the schema registry's client, for the formats that need one."""
    descriptors: bytes = field(default=b"", repr=False)
    """A serialized FileDescriptorSet of Protobuf, in the place of a registry."""
    message: str = ""
    """Which message every value is; with a registry it may be any, if none is named."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For a decoder of the user's own."""
    key: "Decoding | None" = None
    """How keys are decoded."""


_NO_VERDICT = (TidemarkError, MemoryError, OSError, ImportError)
"""They tell of the process and what it needs, not of a value."""


class IsolatingDecoder:
    """Halves the values that another decoder raises over, until those at fault stand alone."""

    def __init__(self, inner: Decoder) -> None:
        self.schema = inner.schema
        self._inner = inner

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the other makes of the values; one that it raises over by itself is UNREADABLE."""
        try:
            return self._inner.decode(values)
        except _NO_VERDICT:
            raise
        except Exception as error:
            if len(values) > 1:
                half = len(values) // 2
                return _joined(self.decode(values[:half]), self.decode(values[half:]), half)
            return self._unreadable(error)

    def _unreadable(self, error: Exception) -> Decoded:
        refusal = Refusal(Reason.UNREADABLE, f"the decoder failed: {type(error).__name__}: {error}")
        rows = pa.RecordBatch.from_pylist([], self.schema)
        return Decoded(rows, pa.array([], pa.int64()), [refusal.of(0)])


def _joined(first: Decoded, second: Decoded, begin: int) -> Decoded:
    """Both as one, where the values of the second began at this index."""
    rows = pa.concat_batches([first.rows, second.rows])
    kept = [*first.kept.to_pylist(), *(index + begin for index in second.kept.to_pylist())]
    rejected = [
        *first.rejected,
        *(replace(one, index=one.index + begin) for one in second.rejected),
    ]
    return Decoded(rows, pa.array(kept, pa.int64()), rejected)
