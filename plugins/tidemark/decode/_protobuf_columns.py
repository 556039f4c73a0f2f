"""Many messages of Protobuf at once, column by column: the fast way for fields that do not repeat.

A message is read here if it is nothing but its known fields, each once at most, in the order of
their numbers and in as few bytes as they take: as Protobuf's libraries write it. Any other one is
left to Google's library, which says what it is. Property tests show that both read alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode._cursor import Array, Column, Cursor, reals, strung, texts, together, unzigzag
from tidemark.decode._exact import same
from tidemark.decode._protobuf_reader import NAMES, conversion
from tidemark.decode._protobuf_schema import is_builtin
from tidemark.decode.port import Refusal

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

MOST_DEPTH = 5
MOST_FIELDS = 500
"""Of a message with those within: each takes memory for every row."""
FIELDS_EACH = 5
"""More fields than so many for each declared one, and 20, take the library less time."""

_VARINTS = {
    "int32": "i4", "int64": "i8", "uint32": "u4", "uint64": "u8", "sint32": "u4", "sint64": "u8",
    "bool": "u8", "enum": "i4",
}  # fmt: skip
_FIXED = {
    "fixed32": "<u4", "fixed64": "<u8", "sfixed32": "<i4", "sfixed64": "<i8",
    "float": "<f4", "double": "<f8",
}  # fmt: skip
_WIRES = dict.fromkeys(_VARINTS, 0) | {
    kind: 1 if numbers.endswith("8") else 5 for kind, numbers in _FIXED.items()
}
_SIZED = 2
_TIMES = pa.struct({"seconds": pa.int64(), "nanos": pa.int32()})
_SECONDS = (-62_135_596_800, 253_402_300_799)

Numbers = Callable[[Cursor, Array], Array]


class MessageColumns:
    """The fast way of one message."""

    def __init__(self, read: Column, schema: pa.Schema) -> None:
        self._read = read
        self._schema = schema

    def rows(self, values: Sequence[bytes]) -> tuple[pa.RecordBatch, Array]:
        """The rows of the messages that could be read, and which these are."""
        return together(values, 0, lambda *of: self._read(*of).flatten(), self._schema)


def columns(message: "Descriptor", declared: pa.Schema) -> MessageColumns | None:
    """The fast way; None where there is none."""
    to = pa.struct(list(declared))
    left = min(MOST_FIELDS, 20 + FIELDS_EACH * _leaves(to))
    try:
        read = _message(message, to, MOST_DEPTH, [left])
    except Refusal:  # a default that the declared type does not hold
        return None
    return read and MessageColumns(read, declared)


def _leaves(of: pa.DataType) -> int:
    return sum(_leaves(one.type) for one in of) if pa.types.is_struct(of) else 1


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    tag: bytes
    read: Column
    default: Any
    oneof: str | None

    def of(self, found: pa.Array, there: Array) -> pa.Array:
        """The column of all rows, where it was found in these."""
        if len(found) == len(there):
            return found
        spread = found.take(pa.array(np.cumsum(there) - 1, mask=~there))
        return spread if self.default is None else spread.fill_null(self.default)


def _message(
    message: "Descriptor", to: pa.DataType | None, depth: int, left: list[int]
) -> Column | None:
    left[0] -= len(message.fields)
    is_read = to is None or (pa.types.is_struct(to) and to.num_fields > 0)
    if not depth or left[0] < 0 or not is_read:
        return None
    declared = {} if to is None else {one.name: one.type for one in to}
    fields = []
    for one in sorted(message.fields, key=lambda one: one.number):
        field = _field(one, declared.get(one.name), depth, left)
        if field is None:
            return None
        fields.append(field)
    return partial(_members, fields, to)


def _members(
    fields: Sequence[_Field], to: pa.DataType | None, cursor: Cursor, rows: Array
) -> pa.Array:
    found: dict[str, pa.Array] = {}
    members: dict[str, Array] = {}
    for one in fields:
        there = cursor.follow(rows, one.tag)
        found[one.name] = one.of(one.read(cursor, rows[there]), there)
        if one.oneof:
            before = members.get(one.oneof, np.zeros(len(rows), bool))
            cursor.distrust(rows[before & there])
            members[one.oneof] = before | there
    if to is None:
        return pa.nulls(len(rows))
    arrays = [found.get(one.name, pa.nulls(len(rows), one.type)) for one in to]
    return pa.StructArray.from_arrays(arrays, fields=list(to))


def _field(
    field: "FieldDescriptor", to: pa.DataType | None, depth: int, left: list[int]
) -> _Field | None:
    kind = NAMES[field.type]
    if field.is_repeated or field.is_required:
        return None
    read = _sub(field.message_type, to, depth, left) if kind == "message" else _plain(field, to)
    if read is None:
        return None
    default = None
    if to is not None and not field.has_presence:
        default = pa.scalar((conversion(field, to) or same)(field.default_value), to)
    tag = _varint(field.number << 3 | _WIRES.get(kind, _SIZED))
    oneof = field.containing_oneof
    shared = oneof.name if oneof and len(oneof.fields) > 1 else None
    return _Field(name=field.name, tag=tag, read=read, default=default, oneof=shared)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


def _sub(
    message: "Descriptor", to: pa.DataType | None, depth: int, left: list[int]
) -> Column | None:
    if to is not None and pa.types.is_timestamp(to):
        if not is_builtin(message, "google.protobuf.Timestamp"):
            return None
        parts = _message(message, _TIMES, depth - 1, left)
        return parts and partial(_instants, partial(_part, parts), to)
    inner = _message(message, to, depth - 1, left)
    return inner and partial(_part, inner)


def _part(inner: Column, cursor: Cursor, rows: Array) -> pa.Array:
    with cursor.part(rows):
        return inner(cursor, rows)


def _instants(parts: Column, to: pa.DataType, cursor: Cursor, rows: Array) -> pa.Array:
    seconds, nanos = (one.to_numpy() for one in parts(cursor, rows).flatten())
    wrong = (seconds < _SECONDS[0]) | (seconds > _SECONDS[1])
    wrong |= (nanos < 0) | (nanos >= 1_000_000_000) | (nanos % 1000 != 0)
    cursor.distrust(rows[wrong])
    found = np.where(wrong, 0, seconds) * 1_000_000 + np.where(wrong, 0, nanos) // 1000
    return pa.array(found).view(to)


def _plain(field: "FieldDescriptor", to: pa.DataType | None) -> Column | None:
    kind = NAMES[field.type]
    if kind in ("string", "bytes"):
        return _string(kind, to)
    if kind not in _WIRES:
        return None
    numbers = partial(_numbers, kind)
    if kind == "enum" and (to is None or pa.types.is_string(to)):
        return _named(field, numbers)
    if kind == "enum" and field.enum_type.is_closed:
        return None
    if to is None:
        return lambda cursor, rows: pa.array(numbers(cursor, rows))
    if kind == "bool":
        return partial(_booleans, numbers) if pa.types.is_boolean(to) else None
    if kind in ("float", "double"):
        return partial(reals, _FIXED[kind], to) if pa.types.is_floating(to) else None
    return partial(_integers, numbers, to) if pa.types.is_integer(to) else None


def _string(kind: str, to: pa.DataType | None) -> Column | None:
    if to is not None and not (pa.types.is_string(to) or pa.types.is_binary(to)):
        return None
    if kind == "bytes" and (to is None or pa.types.is_binary(to)):
        return lambda cursor, rows: strung(*cursor.pieces(rows, _sizes(cursor, rows)))
    return lambda cursor, rows: texts(cursor, rows, _sizes(cursor, rows)).cast(to or pa.string())


def _sizes(cursor: Cursor, rows: Array) -> Array:
    return cursor.varints(rows).astype(np.int64)


def _numbers(kind: str, cursor: Cursor, rows: Array) -> Array:
    """Low bits of a number that has more than its type: so says Protobuf."""
    if kind in _FIXED:
        return cursor.fixed(rows, _FIXED[kind])
    numbers = cursor.varints(rows).astype(_VARINTS[kind])
    if not kind.startswith("sint"):
        return numbers
    return unzigzag(numbers.astype("u8")).astype(f"i{numbers.itemsize}")


def _named(field: "FieldDescriptor", numbers: Numbers) -> Column:
    """Names of an enum; a number without one is left to the library."""
    values = field.enum_type.values_by_number
    known = pa.array(values, pa.int32())
    names = pa.array([one.name for one in values.values()], pa.string())

    def named(cursor: Cursor, rows: Array) -> pa.Array:
        index = pc.index_in(pa.array(numbers(cursor, rows)), known)
        cursor.distrust(rows[index.is_null().to_numpy(zero_copy_only=False)])
        return names.take(index)

    return named


def _booleans(numbers: Numbers, cursor: Cursor, rows: Array) -> pa.Array:
    return pa.array(numbers(cursor, rows) != 0)


def _integers(numbers: Numbers, to: pa.DataType, cursor: Cursor, rows: Array) -> pa.Array:
    found = numbers(cursor, rows)
    has, end = np.iinfo(found.dtype), 2 ** (to.bit_width - 1)
    wrong = np.zeros(len(rows), bool)
    if has.min < -end:
        wrong |= found < -end
    if has.max >= end:
        wrong |= found >= end
    cursor.distrust(rows[wrong])
    return pa.array(np.where(wrong, 0, found).astype(f"i{to.bit_width // 8}"))
