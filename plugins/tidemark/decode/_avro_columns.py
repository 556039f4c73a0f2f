"""Many Avro values of one schema at once, column by column: the fast way for plain records.

It may give up on any value, and then `Readers` reads that one; what it does give is equal to what
`Readers` would, which property tests show. Schemas with other fields than plain and nullable ones
have no such way.

A cursor stands in each of the values, and all move at once. A row that does not read plainly loses
its trust, and whatever is read of it after that means nothing. No read leaves the data: a row
stands at its end at most, and the data are padded.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

_PADDING = bytes(16)


class Cursor:
    """Values side by side; `rows` are the indices of those that a read is about."""

    def __init__(self, values: Sequence[bytes], begin: int) -> None:
        """Each value is at least `begin` bytes long, and there it is read first."""
        self._data = np.frombuffer(b"".join([*values, _PADDING]), np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self._ends = np.cumsum(sizes)
        self._at = self._ends - sizes + begin
        self.trusted = np.ones(len(values), bool)

    def all(self) -> Array:
        """Every row."""
        return np.arange(len(self.trusted))

    def distrust(self, rows: Array) -> None:
        """These rows are read by another, value by value."""
        self.trusted[rows] = False

    def finish(self) -> Array:
        """Which rows are trusted and stand at their end."""
        found: Array = self.trusted & (self._at == self._ends)
        return found

    def longs(self, rows: Array) -> Array:
        """A zigzag number of each row."""
        at = self._at[rows]
        byte = self._data[at]
        number = (byte & 0x7F).astype(np.uint64)
        sizes = np.ones(len(rows), np.int64)
        more = np.flatnonzero(byte >= 0x80)
        for place in range(1, 10):
            if not len(more):
                break
            byte = self._data[at[more] + place]
            number[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            sizes[more] += 1
            if place == 9:
                self.distrust(rows[more[byte > 1]])
            more = more[byte >= 0x80]
        self._move(rows, sizes)
        sign = (number & np.uint64(1)).astype(np.int64)
        found: Array = (number >> np.uint64(1)).astype(np.int64) ^ -sign
        return found

    def fixed(self, rows: Array, kind: str) -> Array:
        """A number of each row, as numpy names its kind: `<f8`."""
        size = np.dtype(kind).itemsize
        found = self._data[self._at[rows][:, None] + np.arange(size)]
        self._move(rows, np.full(len(rows), size))
        return np.ascontiguousarray(found).view(kind).reshape(len(rows))

    def pieces(self, rows: Array, sizes: Array | int) -> tuple[Array, Array]:
        """So many bytes of each row, one after another; and where each begins, with the end."""
        left = self._ends[rows] - self._at[rows]
        sizes = np.broadcast_to(sizes, len(rows))
        wrong = (sizes < 0) | (sizes > left)
        self.distrust(rows[wrong])
        sizes = np.where(wrong, 0, sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self._at[rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
        self._move(rows, sizes)
        return self._data[places], offsets

    def _move(self, rows: Array, sizes: Array) -> None:
        at = self._at[rows] + sizes
        ends = self._ends[rows]
        self.distrust(rows[at > ends])
        self._at[rows] = np.minimum(at, ends)


Column = Callable[[Cursor, Array], pa.Array]
"""Reads a field of these rows: an Arrow array as long as they are many."""

_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_FLOAT32_END = 2.0**128 - 2.0**103
_PARTS = {"timestamp-millis": 1000, "timestamp-micros": 1}
_INT = (-(2**31), 2**31 - 1)


class AvroColumns:
    """The fast way of one writer's schema."""

    def __init__(self, fields: Sequence[tuple[str, Column]], schema: pa.Schema) -> None:
        self._fields = fields
        self._schema = schema

    def rows(self, values: Sequence[bytes], begin: int) -> tuple[pa.RecordBatch, Array]:
        """The rows of the values that could be read, and which these are; data start at `begin`."""
        cursor = Cursor(values, begin)
        every = cursor.all()
        with np.errstate(invalid="ignore"):  # a NaN that signals is a NaN
            found = {name: read(cursor, every) for name, read in self._fields}
        arrays = [
            found[field.name] if field.name in found else pa.nulls(len(values), field.type)
            for field in self._schema
        ]
        good = cursor.finish()
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return (batch if good.all() else batch.filter(pa.array(good))), good


def columns(schema: Any, named: Mapping[str, Any], declared: pa.Schema) -> AvroColumns | None:
    """The fast way; None where there is none."""
    if not isinstance(schema, dict) or schema["type"] != "record" or not schema["fields"]:
        return None
    types = {field.name: field.type for field in declared}
    fields = []
    for one in schema["fields"]:
        read = _column(one["type"], named, types.get(one["name"]))
        if read is None:
            return None
        fields.append((one["name"], read))
    return AvroColumns(fields, declared)


def _column(schema: Any, named: Mapping[str, Any], to: pa.DataType | None) -> Column | None:
    if isinstance(schema, list):
        return _nullable(schema, named, to)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in ("int", "long"):
        return _numbers(kind, logical, to)
    if kind in ("float", "double"):
        return _floats(kind, to)
    return _others(schema, to)


def _others(schema: Any, to: pa.DataType | None) -> Column | None:
    is_text = to is None or pa.types.is_string(to)
    match schema["type"]:
        case "boolean" if to is None or pa.types.is_boolean(to):
            return _booleans
        case "string" if is_text:
            return partial(_texts, is_read=to is not None)
        case "bytes" if to is None or pa.types.is_binary(to):
            return _bytes
        case "enum" if is_text:
            return partial(_symbols, pa.array(schema["symbols"], pa.string()))
    return None


def _nullable(
    branches: list[Any], named: Mapping[str, Any], to: pa.DataType | None
) -> Column | None:
    others = [branch for branch in branches if branch != "null"]
    inner = _column(others[0], named, to) if len(others) == 1 and len(branches) == 2 else None
    return inner and partial(_or_null, inner, branches.index("null"))


def _or_null(inner: Column, null: int, cursor: Cursor, rows: Array) -> pa.Array:
    branch = cursor.longs(rows)
    cursor.distrust(rows[(branch < 0) | (branch > 1)])
    there = branch == 1 - null
    found = inner(cursor, rows[there])
    if len(found) == len(rows):
        return found
    return found.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _numbers(kind: str, logical: str | None, to: pa.DataType | None) -> Column | None:
    bits = _INT if kind == "int" else None
    if to is None or (pa.types.is_integer(to) and kind == "long" and to.bit_width == 64):
        return partial(_integers, bits, 1, pa.int64())
    if pa.types.is_integer(to):
        end = 2 ** (to.bit_width - 1)
        first, last = bits or (-end, end - 1)
        return partial(_integers, (max(first, -end), min(last, end - 1)), 1, to)
    if logical == "date" and kind == "int" and pa.types.is_date(to):
        return partial(_integers, _DAYS, 1, to)
    parts = _PARTS.get((logical or "").removeprefix("local-"))
    if parts and kind == "long" and pa.types.is_timestamp(to):
        first, last = _MICROSECONDS
        return partial(_integers, (-(-first // parts), last // parts), parts, to)
    return None


def _integers(
    bounds: tuple[int, int] | None, parts: int, to: pa.DataType, cursor: Cursor, rows: Array
) -> pa.Array:
    numbers = cursor.longs(rows)
    if bounds:
        wrong = (numbers < bounds[0]) | (numbers > bounds[1])
        cursor.distrust(rows[wrong])
        numbers[wrong] = 0
    width = f"int{to.bit_width}"
    return pa.array((numbers * parts if parts > 1 else numbers).astype(width)).view(to)


def _floats(kind: str, to: pa.DataType | None) -> Column | None:
    if to is None or pa.types.is_floating(to):
        return partial(_reals, "<f4" if kind == "float" else "<f8", to or pa.float64())
    return None


def _reals(kind: str, to: pa.DataType, cursor: Cursor, rows: Array) -> pa.Array:
    numbers = cursor.fixed(rows, kind).astype(np.float64)
    if pa.types.is_float64(to):
        return pa.array(numbers)
    wrong = (np.abs(numbers) >= _FLOAT32_END) & np.isfinite(numbers)
    cursor.distrust(rows[wrong])
    return pa.array(np.where(wrong, 0, numbers).astype(np.float32))


def _booleans(cursor: Cursor, rows: Array) -> pa.Array:
    found = cursor.fixed(rows, "u1")
    cursor.distrust(rows[found > 1])
    return pa.array(found == 1)


def _symbols(symbols: pa.Array, cursor: Cursor, rows: Array) -> pa.Array:
    index = cursor.longs(rows)
    wrong = (index < 0) | (index >= len(symbols))
    cursor.distrust(rows[wrong])
    index[wrong] = 0
    return symbols.take(pa.array(index))


def _bytes(cursor: Cursor, rows: Array) -> pa.Array:
    return _strung(*cursor.pieces(rows, cursor.longs(rows)))


def _texts(cursor: Cursor, rows: Array, *, is_read: bool) -> pa.Array:
    """Texts that hold something else than ASCII are left, where one of them is not UTF-8."""
    data, offsets = cursor.pieces(rows, cursor.longs(rows))
    if not is_read:
        return _strung(data, offsets)
    cursor.distrust(rows[_holding(data == 0, offsets)])
    try:
        return _strung(data, offsets).cast(pa.string())
    except pa.ArrowInvalid:
        odd = data >= 0x80
        cursor.distrust(rows[_holding(odd, offsets)])
        return _strung(np.where(odd, 0, data), offsets).cast(pa.string())


def _holding(odd: Array, offsets: Array) -> Array:
    """Which pieces hold one of these bytes."""
    return np.unique(np.searchsorted(offsets, np.flatnonzero(odd), "right") - 1)


def _strung(data: Array, offsets: Array) -> pa.Array:
    buffers = [
        None,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
