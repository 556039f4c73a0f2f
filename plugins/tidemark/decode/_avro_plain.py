"""Avro's types without parts, read strictly: numbers, texts, bytes, enums, and what they stand for.

Each function that reads is given the value and a place in it, and returns what stands there and the
place after it. An IndexError or a struct.error says that the value ends too early. Libraries are
more lenient: fastavro takes negative indices of unions and enums, any byte for a boolean and
numbers of any length, and ends the process on deep recursion.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any
from uuid import UUID

import pyarrow as pa

from tidemark.decode import _exact
from tidemark.decode._connect import DELETED_AT
from tidemark.decode._exact import Convert, other, same
from tidemark.decode.port import Reason, Refusal

_BITS = {"int": 32, "long": 64}
_PARTS = {"millis": 1000, "micros": 1}


def conversion(schema: Any, to: pa.DataType) -> Convert | None:
    """From values of a plain Avro type into the declared one; None where there is no way."""
    kind, logical = schema["type"], schema.get("logicalType")
    if logical and (found := _of_logical(logical, schema, to)):
        return found
    if pa.types.is_integer(to) and kind in ("int", "long"):
        return _exact.integer(to) if to.bit_width < _BITS[kind] else same
    if pa.types.is_floating(to) and kind in ("int", "long"):
        return float
    if pa.types.is_floating(to) and kind in ("float", "double"):
        return _exact.float32 if pa.types.is_float32(to) and kind == "double" else same
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
        return _exact.days
    if logical == "uuid" and pa.types.is_string(to) and schema.get("size") == 16:
        return lambda value: str(UUID(bytes=value))
    name, _, unit = logical.removeprefix("local-").partition("-")
    if name == "timestamp" and pa.types.is_timestamp(to) and kind == "long":
        return _exact.nanoseconds if unit == "nanos" else _instant(_PARTS.get(unit))
    return None


def _instant(parts: int | None) -> Convert | None:
    if parts is None:
        return None
    return lambda value: _exact.microseconds(value * parts)


def _decimal(scale: Any, to: pa.DataType) -> Convert | None:
    if scale not in _exact.SCALES:
        return None
    fits = _exact.decimal(to)
    return lambda value: fits(_exact.unscaled(value, scale))


_BINARY: dict[str, Convert] = {"bytes": same, "fixed": same, "string": str.encode}
_STRING: dict[str, Convert] = {"string": _exact.text, "bytes": _exact.utf8, "enum": same}


_FLOAT, _DOUBLE = Struct("<f").unpack_from, Struct("<d").unpack_from
_INT = range(-(2**31), 2**31)


def invalid(fact: str) -> Refusal:
    """The refusal of bytes that are no datum of their schema."""
    return Refusal(Reason.INVALID_AVRO, fact)


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of 64 bits."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise invalid("a number has more than ten bytes")
    if number >> 64:
        raise invalid("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def int_at(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of 32 bits."""
    number, at = long_at(data, at)
    if number not in _INT:
        raise invalid("an int has more than 32 bits")
    return number, at


def boolean_at(data: bytes, at: int) -> tuple[bool, int]:
    """A byte, 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise invalid(f"a boolean is {byte}")
    return byte == 1, at + 1


def float_at(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT(data, at)[0], at + 4


def double_at(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE(data, at)[0], at + 8


def null_at(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def bytes_at(data: bytes, at: int) -> tuple[bytes, int]:
    """A length and so many bytes."""
    size, at = long_at(data, at)
    return sized(data, at, size)


def sized(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """So many bytes."""
    end = at + size
    if size < 0 or end > len(data):
        raise invalid(f"a length is {size} where {len(data) - at} bytes are left")
    return data[at:end], end


def text_at(data: bytes, at: int) -> tuple[str, int]:
    """A length and so many bytes of UTF-8."""
    found, at = bytes_at(data, at)
    try:
        return found.decode(), at
    except UnicodeDecodeError as error:
        raise Refusal(Reason.INVALID_UTF8, "a string is not valid UTF-8") from error


def index_at(data: bytes, at: int, size: int) -> tuple[int, int]:
    """An index below `size`: of a union's branch, or of an enum's symbol."""
    index, at = long_at(data, at)
    if not 0 <= index < size:
        raise invalid(f"an index is {index}, and there are {size}")
    return index, at


Read = Callable[[bytes, int], tuple[Any, int]]
"""From a value and a place in it to what stands there and the place after it."""

PLAIN: dict[str, Read] = {
    "null": null_at,
    "boolean": boolean_at,
    "int": int_at,
    "long": long_at,
    "float": float_at,
    "double": double_at,
    "bytes": bytes_at,
    "string": text_at,
}


def plain(schema: Any, to: pa.DataType | None, where: str) -> Read:
    """Reads a datum into the declared type; with None it is passed over.

    Raises:
        Refusal: no value of this schema can be read so.
    """
    read = _bare(schema)
    if to is None:
        return bytes_at if schema["type"] == "string" else read
    if schema["type"] == "null":
        return read
    convert = conversion(schema, to)
    if where == DELETED_AT and schema["type"] == "string" and pa.types.is_boolean(to):
        convert = _exact.flag
    if convert is None:
        logical = f" ({schema['logicalType']})" if "logicalType" in schema else ""
        raise other(where, f"{schema['type']}{logical} is not read as {to}")
    return read if convert is same else _converted(read, convert, where)


def _bare(schema: Any) -> Read:
    match schema["type"]:
        case "fixed":
            return partial(_fixed, schema["size"])
        case "enum":
            return partial(_enum, schema["symbols"])
        case name:
            return PLAIN[name]


def _fixed(size: int, data: bytes, at: int) -> tuple[bytes, int]:
    return sized(data, at, size)


def _enum(symbols: list[str], data: bytes, at: int) -> tuple[str, int]:
    index, at = index_at(data, at, len(symbols))
    return symbols[index], at


def _converted(read: Read, convert: Convert, where: str) -> Read:
    def converted(data: bytes, at: int) -> tuple[Any, int]:
        try:
            value, at = read(data, at)
            return convert(value), at
        except Refusal as refusal:
            if " - at `" in refusal.detail:
                raise
            raise Refusal(refusal.reason, f"{refusal.detail} - at `{where}`") from None

    return converted
