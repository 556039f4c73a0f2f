"""Which declared types a plain Avro type is read into, and how a value becomes one.

A function here is given what Avro's bytes say, and returns what Arrow takes for the declared type.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from tidemark.decode.outcome import Reason, Refusal

Convert = Callable[[Any], Any]

_FLOAT32_END = 2.0**128 - 2.0**103  # the first number that rounds to infinity
_DAYS = range(-719_162, 2_932_897)
_MICROSECONDS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999."""
_MAX_UNSCALED = 128
"""Bytes of a decimal's unscaled number."""
_SCALES = range(1000)
_EXACT = Context(prec=2000)


def same(value: Any) -> Any:
    """The value as it is."""
    return value


def conversion(schema: Any, to: pa.DataType) -> Convert | None:
    """From values of a plain Avro type into the declared one; None where there is no way."""
    kind, logical = schema["type"], schema.get("logicalType")
    if logical and (found := _of_logical(logical, schema, to)):
        return found
    if pa.types.is_integer(to) and kind in ("int", "long"):
        return _integer(to) if to.bit_width < _BITS[kind] else same
    if pa.types.is_floating(to) and kind in ("int", "long"):
        return float
    if pa.types.is_floating(to) and kind in ("float", "double"):
        return _float32 if pa.types.is_float32(to) and kind == "double" else same
    if pa.types.is_binary(to):
        return _BINARY.get(kind)
    if pa.types.is_string(to) and not (logical and kind == "bytes"):
        return _STRING.get(kind)
    return same if pa.types.is_boolean(to) and kind == "boolean" else None


_BITS = {"int": 32, "long": 64}
_PARTS = {"millis": 1000, "micros": 1}


def _of_logical(logical: str, schema: Any, to: pa.DataType) -> Convert | None:
    kind = schema["type"]
    if logical == "decimal" and pa.types.is_decimal(to) and kind in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        return _decimal(scale, to) if scale in _SCALES else None
    if logical == "date" and pa.types.is_date(to) and kind == "int":
        return _within(_DAYS)
    if logical == "uuid" and pa.types.is_string(to) and schema.get("size") == 16:
        return lambda value: str(UUID(bytes=value))
    name, _, unit = logical.removeprefix("local-").partition("-")
    if name == "timestamp" and pa.types.is_timestamp(to) and kind == "long":
        return _nanoseconds if unit == "nanos" else _instant(_PARTS.get(unit))
    return None


def _instant(parts: int | None) -> Convert | None:
    if parts is None:
        return None
    inside = _within(_MICROSECONDS)
    return lambda value: inside(value * parts)


def _nanoseconds(value: int) -> int:
    if value % 1000:
        raise Refusal(Reason.OUT_OF_RANGE, "a time is finer than microseconds")
    microseconds: int = _within(_MICROSECONDS)(value // 1000)
    return microseconds


def _within(years: range) -> Convert:
    def inside(value: int) -> int:
        if value not in years:
            raise Refusal(Reason.OUT_OF_RANGE, "outside of the years 1 to 9999")
        return value

    return inside


def _integer(to: pa.DataType) -> Convert:
    end = 2 ** (to.bit_width - 1)

    def fits(value: int) -> int:
        if not -end <= value < end:
            raise Refusal(Reason.OUT_OF_RANGE, f"{value} is no {to}")
        return value

    return fits


def _float32(value: float) -> float:
    if abs(value) >= _FLOAT32_END and value not in (float("inf"), float("-inf")):
        raise Refusal(Reason.OUT_OF_RANGE, f"{value} is no float")
    return value


def _decimal(scale: int, to: pa.DataType) -> Convert:
    """Exactly: no digit is rounded away."""

    def fits(value: bytes) -> Decimal:
        if not 0 < len(value) <= _MAX_UNSCALED:
            raise Refusal(Reason.OUT_OF_RANGE, f"{len(value)} bytes are no decimal")
        number = _EXACT.scaleb(Decimal(int.from_bytes(value, signed=True)), -scale)
        if number and number.adjusted() >= to.precision - to.scale:
            raise Refusal(Reason.OUT_OF_RANGE, f"too large for decimal({to.precision},{to.scale})")
        exact = number.quantize(Decimal(1).scaleb(-to.scale), context=_EXACT)
        if exact != number:
            raise Refusal(Reason.OUT_OF_RANGE, f"finer than decimal({to.precision},{to.scale})")
        return exact

    return fits


def text(value: str) -> str:
    """A text that Postgres can store."""
    if "\0" in value:
        raise Refusal(
            Reason.NUL_IN_TEXT, "a declared text holds U+0000, which Postgres can't store"
        )
    return value


def _utf8(value: bytes) -> str:
    try:
        return text(value.decode())
    except UnicodeDecodeError as error:
        raise Refusal(Reason.INVALID_UTF8, "bytes declared as a string are not UTF-8") from error


_BINARY: dict[str, Convert] = {"bytes": same, "fixed": same, "string": str.encode}
_STRING: dict[str, Convert] = {"string": text, "bytes": _utf8, "enum": same}
