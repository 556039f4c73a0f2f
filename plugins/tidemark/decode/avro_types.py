"""Which declared types a plain Avro type is read into, and how a value becomes one."""

from typing import Any
from uuid import UUID

import pyarrow as pa

from tidemark.decode import exact
from tidemark.decode.exact import Convert, same

_BITS = {"int": 32, "long": 64}
_PARTS = {"millis": 1000, "micros": 1}


def conversion(schema: Any, to: pa.DataType) -> Convert | None:
    """From values of a plain Avro type into the declared one; None where there is no way."""
    kind, logical = schema["type"], schema.get("logicalType")
    if logical and (found := _of_logical(logical, schema, to)):
        return found
    if pa.types.is_integer(to) and kind in ("int", "long"):
        return exact.integer(to) if to.bit_width < _BITS[kind] else same
    if pa.types.is_floating(to) and kind in ("int", "long"):
        return float
    if pa.types.is_floating(to) and kind in ("float", "double"):
        return exact.float32 if pa.types.is_float32(to) and kind == "double" else same
    if pa.types.is_binary(to):
        return _BINARY.get(kind)
    if pa.types.is_string(to) and not (logical and kind == "bytes"):
        return _STRING.get(kind)
    return same if pa.types.is_boolean(to) and kind == "boolean" else None


def _of_logical(logical: str, schema: Any, to: pa.DataType) -> Convert | None:
    kind = schema["type"]
    if logical == "decimal" and pa.types.is_decimal(to) and kind in ("bytes", "fixed"):
        return _decimal(schema.get("scale", 0), to)
    if logical == "date" and pa.types.is_date(to) and kind == "int":
        return exact.days
    if logical == "uuid" and pa.types.is_string(to) and schema.get("size") == 16:
        return lambda value: str(UUID(bytes=value))
    name, _, unit = logical.removeprefix("local-").partition("-")
    if name == "timestamp" and pa.types.is_timestamp(to) and kind == "long":
        return exact.nanoseconds if unit == "nanos" else _instant(_PARTS.get(unit))
    return None


def _instant(parts: int | None) -> Convert | None:
    if parts is None:
        return None
    return lambda value: exact.microseconds(value * parts)


def _decimal(scale: Any, to: pa.DataType) -> Convert | None:
    if scale not in exact.SCALES:
        return None
    fits = exact.decimal(to)
    return lambda value: fits(exact.unscaled(value, scale))


_BINARY: dict[str, Convert] = {"bytes": same, "fixed": same, "string": str.encode}
_STRING: dict[str, Convert] = {"string": exact.text, "bytes": exact.utf8, "enum": same}
