"""Many Avro values of one schema at once, column by column: the fast way for plain records.

It may give up on any value, and then `Readers` reads that one; what it does give is equal to what
`Readers` would, which property tests show. Schemas with other fields than plain and nullable ones
have no such way.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode._cursor import Array, Column, Cursor, reals, strung, texts, together

_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_PARTS = {"timestamp-millis": 1000, "timestamp-micros": 1}
_INT = (-(2**31), 2**31 - 1)


class AvroColumns:
    """The fast way of one writer's schema."""

    def __init__(self, fields: Sequence[tuple[str, Column]], schema: pa.Schema) -> None:
        self._fields = fields
        self._schema = schema

    def rows(self, values: Sequence[bytes], begin: int) -> tuple[pa.RecordBatch, Array]:
        """The rows of the values that could be read, and which these are; data start at `begin`."""
        return together(values, begin, self._arrays, self._schema)

    def _arrays(self, cursor: Cursor, rows: Array) -> list[pa.Array]:
        found = {name: read(cursor, rows) for name, read in self._fields}
        return [
            found[field.name] if field.name in found else pa.nulls(len(rows), field.type)
            for field in self._schema
        ]


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
        case "string" if to is not None and pa.types.is_boolean(to):
            return _flags  # `Readers` takes such a field, or there is no plan
        case "string" if is_text:
            return _texts if to is not None else _bytes
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
        return partial(reals, "<f4" if kind == "float" else "<f8", to or pa.float64())
    return None


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
    return strung(*cursor.pieces(rows, cursor.longs(rows)))


def _texts(cursor: Cursor, rows: Array) -> pa.Array:
    return texts(cursor, rows, cursor.longs(rows))


def _flags(cursor: Cursor, rows: Array) -> pa.Array:
    told = _texts(cursor, rows)
    found = pc.equal(told, "true")
    known = pc.or_(found, pc.equal(told, "false"))
    cursor.distrust(rows[~known.to_numpy(zero_copy_only=False)])
    return found
