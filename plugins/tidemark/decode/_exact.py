"""What a declared type holds of a writer's value: all of it, or the value is refused.

A function here is given a plain value, and returns what Arrow takes for the declared type.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from tidemark.decode.port import Reason, Refusal

Convert = Callable[[Any], Any]

FLOAT32_END = 2.0**128 - 2.0**103  # the first number that rounds to infinity
_DAYS = range(-719_162, 2_932_897)
_MICROSECONDS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The years 1 to 9999."""
_MAX_UNSCALED = 128
"""Bytes of a decimal's unscaled number."""
SCALES = range(1000)
_FLAGS = {"true": True, "false": False}
_EXACT = Context(prec=2000)


def other(where: str, fact: str) -> Refusal:
    """The refusal of a writer's schema, none of whose values a declared type holds."""
    return Refusal(Reason.OTHER_SCHEMA, f"{fact} - at `{where}`")


def same(value: Any) -> Any:
    return value


def days(value: int) -> int:
    """Days since 1970 that are a date."""
    return _within(_DAYS, value)


def microseconds(value: int) -> int:
    """Microseconds since 1970 that are a timestamp."""
    return _within(_MICROSECONDS, value)


def nanoseconds(value: int) -> int:
    """Nanoseconds since 1970 as the microseconds of a timestamp."""
    if value % 1000:
        raise Refusal(Reason.OUT_OF_RANGE, "a time is finer than microseconds")
    return microseconds(value // 1000)


def integer(to: pa.DataType) -> Convert:
    """Integers of this type."""
    end = 2 ** (to.bit_width - 1)

    def fits(value: int) -> int:
        if not -end <= value < end:
            raise Refusal(Reason.OUT_OF_RANGE, f"{value} is no {to}")
        return value

    return fits


def float32(value: float) -> float:
    """Numbers that do not become infinite."""
    if abs(value) >= FLOAT32_END and value not in (float("inf"), float("-inf")):
        raise Refusal(Reason.OUT_OF_RANGE, f"{value} is no float")
    return value


def decimal(to: pa.DataType) -> Callable[[Decimal], Decimal]:
    """Exactly: no digit is rounded away."""

    def fits(number: Decimal) -> Decimal:
        if number and number.adjusted() >= to.precision - to.scale:
            raise Refusal(Reason.OUT_OF_RANGE, f"too large for decimal({to.precision},{to.scale})")
        exact = number.quantize(Decimal(1).scaleb(-to.scale), context=_EXACT)
        if exact != number:
            raise Refusal(Reason.OUT_OF_RANGE, f"finer than decimal({to.precision},{to.scale})")
        return exact

    return fits


def unscaled(value: bytes, scale: int) -> Decimal:
    """The number whose digits are these bytes; `scale` is one of SCALES."""
    if not 0 < len(value) <= _MAX_UNSCALED:
        raise Refusal(Reason.OUT_OF_RANGE, f"{len(value)} bytes are no decimal")
    return _EXACT.scaleb(Decimal(int.from_bytes(value, signed=True)), -scale)


def text(value: str) -> str:
    """A text that Postgres can store."""
    if "\0" in value:
        raise Refusal(
            Reason.NUL_IN_TEXT, "a declared text holds U+0000, which Postgres can't store"
        )
    return value


def flag(value: str) -> bool:
    """What Debezium writes as a text where it flattens an event."""
    if value not in _FLAGS:
        raise Refusal(Reason.WRONG_TYPE, "a text is neither true nor false")
    return _FLAGS[value]


def utf8(value: bytes) -> str:
    """Bytes that are such a text."""
    try:
        return text(value.decode())
    except UnicodeDecodeError:
        raise Refusal(Reason.INVALID_UTF8, "bytes declared as a string are not UTF-8") from None


def _within(years: range, value: int) -> int:
    if value not in years:
        raise Refusal(Reason.OUT_OF_RANGE, "outside of the years 1 to 9999")
    return value
