"""Values in Avro's binary encoding, made of what the JSON of a row says of them."""

import json
import re
import struct
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

Encode = Callable[[Any], bytes]
"""Of one value, which is not null.

Raises:
    ValueError, TypeError, OverflowError: Avro's type can't hold it.
"""

_ZERO = b"\x00"
_NULL, _VALUE = _ZERO, b"\x02"
"""The branches of a union."""
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_0 = date(1970, 1, 1).toordinal()
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?")
_WIDEST = len(str(-(1 << 63)))


def nullable(encode: Encode) -> Encode:
    """A union of null and the type."""
    return lambda value: _NULL if value is None else _VALUE + encode(value)


def array(encode: Encode) -> Encode:
    """An array of nullable elements."""
    element = nullable(encode)

    def encoded(values: Any) -> bytes:
        if not isinstance(values, list):
            raise TypeError("it is no list")
        if not values:
            return _ZERO
        return long(len(values)) + b"".join(map(element, values)) + _ZERO

    return encoded


def long(number: int) -> bytes:
    """A number in zigzag, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def integer(bits: int, value: Any) -> bytes:
    """A whole number of so many bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("it is no whole number")
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OverflowError(f"it has more than {bits} bits")
    return long(value)


def boolean(value: Any) -> bytes:
    """One byte."""
    if not isinstance(value, bool):
        raise TypeError("it is no boolean")
    return b"\x01" if value else _ZERO


def real(kind: str, value: Any) -> bytes:
    """A float of this format of `struct`; NaN and the infinities come as texts."""
    return struct.pack(kind, float(value))


def decimal(precision: int, scale: int, value: Any) -> bytes:
    """The digits of a number, or of its text, without their point, in two's complement."""
    if not (found := _DECIMAL.fullmatch(str(value))):
        raise ValueError("it is no decimal")
    whole, part = found[1], (found[2] or "").rstrip("0")
    number = int(whole + part.ljust(scale, "0"))
    if len(part) > scale or abs(number) >= 10**precision:
        raise OverflowError(f"it has more digits than numeric({precision},{scale})")
    return _sized(number.to_bytes((number.bit_length() + 8) // 8, signed=True))


def text(value: Any) -> bytes:
    """A text; what is none as its JSON."""
    return _sized((value if isinstance(value, str) else dumped(value)).encode())


def document(value: Any) -> bytes:
    """The text of a JSON value."""
    return _sized(dumped(value).encode())


def binary(value: str) -> bytes:
    """What base64 says."""
    return _sized(b64decode(value, validate=True))


def day(value: str) -> bytes:
    """Days since 1970."""
    return long(date.fromisoformat(value).toordinal() - _DAY_0)


def moment(value: str) -> bytes:
    """Microseconds since 1970, in UTC or without a zone."""
    found = datetime.fromisoformat(value)
    return long(((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND)


def loaded(text: bytes) -> Any:
    """What a JSON text says, with all digits of its numbers, and the sign of a zero."""
    return _JSON.decode(text.decode())


def dumped(value: Any) -> str:
    """The JSON of what was `loaded`."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{dumped(name)}:{dumped(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(dumped, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _whole(text: str) -> int | Decimal:
    """Python makes no int of thousands of digits, and none of -0."""
    return int(text) if len(text) <= _WIDEST and text != "-0" else Decimal(text)


def _sized(data: bytes) -> bytes:
    return long(len(data)) + data


_JSON = json.JSONDecoder(parse_float=Decimal, parse_int=_whole)

INTEGERS = {16: partial(integer, 16), 32: partial(integer, 32), 64: partial(integer, 64)}
"""By their bits."""
