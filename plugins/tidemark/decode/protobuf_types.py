"""Which declared types a single value of Protobuf is read into, and how it becomes one."""

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.decode import exact
from tidemark.decode.exact import Convert, same
from tidemark.decode.outcome import Reason, Refusal
from tidemark.decode.protobuf_schema import WRAPPERS, is_builtin

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

Known = Callable[["Descriptor", pa.DataType], Convert | None]

_BITS = {
    "int32": 32, "sint32": 32, "sfixed32": 32, "uint32": 33, "fixed32": 33,
    "int64": 64, "sint64": 64, "sfixed64": 64, "uint64": 65, "fixed64": 65,
}  # fmt: skip
"""What a signed integer needs to hold every value."""
NAMES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
    "group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""Of the types by their numbers, as descriptor.proto has them."""
_NANOS = range(1_000_000_000)
_EPOCH = date(1970, 1, 1).toordinal()


def conversion(field: "FieldDescriptor", to: pa.DataType) -> Convert | None:
    """From one value of a field that is no message; None where there is no way."""
    kind = NAMES[field.type]
    if kind in _BITS:
        return _integer(_BITS[kind], to)
    if kind in ("float", "double") and pa.types.is_floating(to):
        return exact.float32 if pa.types.is_float32(to) and kind == "double" else same
    if kind == "bool":
        return same if pa.types.is_boolean(to) else None
    if kind == "enum":
        return _enum(field, to)
    if pa.types.is_string(to):
        return {"string": _text, "bytes": exact.utf8}.get(kind)
    if pa.types.is_binary(to):
        return {"string": _encoded, "bytes": same}.get(kind)
    return None


def known(message: "Descriptor", to: pa.DataType) -> Convert | None:
    """From a message that everyone knows; None where it is none, or there is no way."""
    for name, way in _KNOWN.items():
        if is_builtin(message, name):
            return way(message, to)
    return _wrapped(message, to) if message.file.name == WRAPPERS else None


def _integer(bits: int, to: pa.DataType) -> Convert | None:
    if pa.types.is_integer(to):
        return exact.integer(to) if to.bit_width < bits else same
    if pa.types.is_floating(to):
        return float
    if pa.types.is_decimal(to):
        fits = exact.decimal(to)
        return lambda value: fits(Decimal(value))
    return None


def _enum(field: "FieldDescriptor", to: pa.DataType) -> Convert | None:
    if pa.types.is_integer(to):
        return _integer(32, to)
    if not pa.types.is_string(to):
        return None
    names: dict[int, str] = {
        number: one.name for number, one in field.enum_type.values_by_number.items()
    }

    def name(value: int) -> str:
        if value not in names:
            raise Refusal(Reason.OUT_OF_RANGE, f"the enum has no name for {value}")
        return names[value]

    return name


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):  # proto2 lets them pass
        raise Refusal(Reason.INVALID_UTF8, "a string is not valid UTF-8")
    return exact.text(value)


def _encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _timestamp(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_timestamp(to):
        return None

    def instant(value: Any) -> int:
        if value.nanos not in _NANOS:
            raise Refusal(Reason.OUT_OF_RANGE, f"a timestamp has {value.nanos} nanoseconds")
        return exact.nanoseconds(value.seconds * 1_000_000_000 + value.nanos)

    return instant


def _duration(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_decimal(to):
        return None
    fits = exact.decimal(to)

    def seconds(value: Any) -> Decimal:
        if abs(value.nanos) not in _NANOS or value.seconds * value.nanos < 0:
            raise Refusal(Reason.OUT_OF_RANGE, "a duration's seconds and nanoseconds do not agree")
        return fits(Decimal(value.seconds) + Decimal(value.nanos).scaleb(-9))

    return seconds


def _decimal(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_decimal(to):
        return None
    fits = exact.decimal(to)

    def number(value: Any) -> Decimal:
        if value.scale not in exact.SCALES:
            raise Refusal(Reason.OUT_OF_RANGE, f"a decimal has the scale {value.scale}")
        return fits(exact.unscaled(value.value or b"\0", value.scale))

    return number


def _date(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_date(to):
        return None

    def day(value: Any) -> int:
        try:
            return date(value.year, value.month, value.day).toordinal() - _EPOCH
        except (ValueError, OverflowError) as error:
            raise Refusal(Reason.OUT_OF_RANGE, f"no date: {error}") from None

    return day


def _json(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_string(to):
        return None
    from google.protobuf.json_format import Error, MessageToDict

    def text(value: Any) -> str:
        try:
            return json.dumps(MessageToDict(value), sort_keys=True, ensure_ascii=False)
        except (Error, ValueError, RecursionError) as error:
            raise Refusal(Reason.WRONG_TYPE, f"no JSON: {error}") from None

    return text


def _wrapped(message: "Descriptor", to: pa.DataType) -> Convert | None:
    inner = conversion(message.fields_by_name["value"], to)
    return inner and (lambda value: inner(value.value))


_KNOWN: dict[str, Known] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": _json,
    "google.protobuf.Value": _json,
    "google.protobuf.ListValue": _json,
    "google.type.Date": _date,
    "confluent.type.Decimal": _decimal,
}
