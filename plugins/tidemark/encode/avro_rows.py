"""Rows of a table in Avro: a schema made of its columns, and values behind the schema's id.

Each field is a union with null, which is its default: so a column may come, go, or lose its NOT
NULL, and the schema stays compatible with those before it. Values are made of what the JSON of a
row says of them.
"""

import json
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from tidemark.encode.errors import ColumnNotOfAvro, JsonTooDeep, ValueNotOfAvro

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
    """Encode the bytes that a base64 text stands for, behind their length."""
    return _sized(b64decode(value, validate=True))


def day(value: str) -> bytes:
    """Days since 1970."""
    return long(date.fromisoformat(value).toordinal() - _DAY_0)


def moment(value: str) -> bytes:
    """Microseconds since 1970, in UTC or without a zone."""
    found = datetime.fromisoformat(value)
    return long(((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND)


def loaded(text: bytes) -> Any:
    """Parse a JSON text, with all digits of its numbers, and the sign of a zero."""
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


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMERIC = re.compile(r"numeric\(([0-9]+),([0-9]+)\)")
_PRECISION = re.compile(r"\([0-9]+\)")

_PLAIN: dict[str, tuple[Any, Encode]] = {
    "boolean": ("boolean", boolean),
    "smallint": ("int", INTEGERS[16]),
    "integer": ("int", INTEGERS[32]),
    "bigint": ("long", INTEGERS[64]),
    "real": ("float", partial(real, "<f")),
    "double precision": ("double", partial(real, "<d")),
    "bytea": ("bytes", binary),
    "date": ({"type": "int", "logicalType": "date"}, day),
    "timestamp without time zone": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        moment,
    ),
    "timestamp with time zone": ({"type": "long", "logicalType": "timestamp-micros"}, moment),
    "uuid": ({"type": "string", "logicalType": "uuid"}, text),
    "json": ("string", document),
    "jsonb": ("string", document),
}
"""What Avro's type is of Postgres' types by their names, and how a value is written."""


@dataclass(frozen=True, slots=True)
class AvroRows:
    """How the rows of a table are written."""

    text: str
    """The schema, as it is registered."""
    fields: Sequence[tuple[str, Encode]]

    @classmethod
    def of(cls, columns: Sequence[tuple[str, str]]) -> "AvroRows":
        """For columns by their names and types.

        Raises:
            Refused: Avro allows no field of such a name.
        """
        for name, _ in columns:
            if not _NAME.fullmatch(name):
                raise ColumnNotOfAvro(column=name)
        types = [(name, *_type(kind)) for name, kind in columns]
        fields = [
            {"name": name, "type": ["null", avro], "default": None} for name, avro, _ in types
        ]
        schema = {"type": "record", "name": "Row", "namespace": "tidemark", "fields": fields}
        encoders = [(name, nullable(encode)) for name, _, encode in types]
        return cls(json.dumps(schema), encoders)

    def encoded(self, schema_id: int, row: bytes) -> bytes:
        """A row behind the schema's id, of its JSON; a column that this does not have is null.

        Raises:
            Refused: a type of Avro can't hold a value; the text names its column.
        """
        found = _loaded(row)
        parts = [b"\x00", schema_id.to_bytes(4)]
        for name, encode in self.fields:
            try:
                parts.append(encode(found.get(name)))
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                begins = str(found[name])[:40]
                raise ValueNotOfAvro(column=name, value=begins, cause=str(error)) from error
        return b"".join(parts)


def _loaded(row: bytes) -> Any:
    try:
        return loaded(row)
    except RecursionError as error:
        raise JsonTooDeep(cause=str(error)) from error


def _type(kind: str) -> tuple[Any, Encode]:
    """Avro's type of one of Postgres', and how its values are written."""
    if kind.endswith("[]"):
        items, encode = _type(kind.removesuffix("[]"))
        return {"type": "array", "items": ["null", items]}, array(encode)
    if found := _NUMERIC.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        if scale <= precision:
            logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {"type": "bytes", **logical}, partial(decimal, precision, scale)
    return _PLAIN.get(_PRECISION.sub("", kind), ("string", text))
