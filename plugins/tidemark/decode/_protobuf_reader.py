"""Of a message of Protobuf and declared columns: the functions that read the one as the other.

The library has checked the bytes. What it lets pass is looked for here: a field that is written
as another type counts as unknown there, and would be null or zero.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.decode import _exact
from tidemark.decode._connect import DELETED_AT
from tidemark.decode._exact import Convert, other, same
from tidemark.decode._no_field import no_declared_field
from tidemark.decode._protobuf_schema import WRAPPERS, is_builtin
from tidemark.decode.port import Reason, Refusal

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message


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
        return _exact.float32 if pa.types.is_float32(to) and kind == "double" else same
    if kind == "bool":
        return same if pa.types.is_boolean(to) else None
    if kind == "enum":
        return _enum(field, to)
    if pa.types.is_string(to):
        return {"string": _text, "bytes": _exact.utf8}.get(kind)
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
        return _exact.integer(to) if to.bit_width < bits else same
    if pa.types.is_floating(to):
        return float
    if pa.types.is_decimal(to):
        fits = _exact.decimal(to)
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
    return _exact.text(value)


def _encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _timestamp(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_timestamp(to):
        return None

    def instant(value: Any) -> int:
        if value.nanos not in _NANOS:
            raise Refusal(Reason.OUT_OF_RANGE, f"a timestamp has {value.nanos} nanoseconds")
        return _exact.nanoseconds(value.seconds * 1_000_000_000 + value.nanos)

    return instant


def _duration(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_decimal(to):
        return None
    fits = _exact.decimal(to)

    def seconds(value: Any) -> Decimal:
        if abs(value.nanos) not in _NANOS or value.seconds * value.nanos < 0:
            raise Refusal(Reason.OUT_OF_RANGE, "a duration's seconds and nanoseconds do not agree")
        return fits(Decimal(value.seconds) + Decimal(value.nanos).scaleb(-9))

    return seconds


def _decimal(_: "Descriptor", to: pa.DataType) -> Convert | None:
    if not pa.types.is_decimal(to):
        return None
    fits = _exact.decimal(to)

    def number(value: Any) -> Decimal:
        if value.scale not in _exact.SCALES:
            raise Refusal(Reason.OUT_OF_RANGE, f"a decimal has the scale {value.scale}")
        return fits(_exact.unscaled(value.value or b"\0", value.scale))

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


Read = Callable[[Any], Any]
"""From a message to what stands in one of its fields."""

Has = Callable[["Message", str], bool]
"""Whether a field is there; a message may have a field of this method's name."""


class FieldReader:
    """How fields of messages are read."""

    def __init__(self, has: Has, *, refuses_new: bool = False, rows: Collection[str] = ()) -> None:
        """`refuses_new`: a message with a field that is not declared is refused.

        `rows`: so is a message at one of these places that has no declared field.
        """
        self._has = has
        self._refuses_new = refuses_new
        self._rows = rows

    def field(self, message: "Descriptor", name: str, to: pa.DataType, where: str = "$") -> Read:
        """Reads a field into the declared type; one that the writer does not have is null.

        Raises:
            Refusal: no value of this field can be read so.
        """
        field = message.fields_by_name.get(name)
        where = f"{where}.{name}"
        if field is None:
            return _nothing
        if field.message_type and field.message_type.GetOptions().map_entry:
            return self._map(field, to, where)
        if field.is_repeated:
            if not pa.types.is_list(to):
                raise other(where, f"a repeated field is no {to}")
            return _each(name, self._value(field, to.value_type, f"{where}[]"))
        return _single(field, self._value(field, to, where), self._has)

    def sound(
        self, message: "Descriptor", declared: Sequence[str] | None, where: str = ""
    ) -> Convert:
        """Returns a message whose known fields are of their types.

        A value that an enum of proto2 does not name counts as a field of another type. Where rows
        stand, a message of nothing but fields that it does not know is another one.

        Raises:
            Refusal: the message has fields that are not declared, or none that is, if that matters.
        """
        from google.protobuf.unknown_fields import UnknownFieldSet

        names = {field.number: field.name for field in message.fields}
        refuses_new = self._refuses_new and declared is not None
        new = [name for name in names.values() if name not in (declared or ())]
        if refuses_new and new:
            raise Refusal(
                Reason.NEW_FIELD, f"{message.full_name} has {', '.join(new)}, not declared"
            )

        is_row = where in self._rows
        if is_row and declared is not None and not {*names.values()} & {*declared}:
            raise no_declared_field(message.full_name, new, declared)

        def checked(value: Any) -> Any:
            unknown = UnknownFieldSet(value)
            for one in unknown if len(unknown) else ():
                if one.field_number in names:
                    raise _misread(names[one.field_number], message)
                if refuses_new:
                    fact = f"{message.full_name} has a field {one.field_number} that is not known"
                    raise Refusal(Reason.NEW_FIELD, fact)
            if is_row and len(unknown) and not value.ListFields():
                raise _another(message, {str(one.field_number) for one in unknown})
            return value

        return checked

    def _map(self, field: "FieldDescriptor", to: pa.DataType, where: str) -> Read:
        """Sorted by key: the library keeps no order, and rows must be the same when read again."""
        pair = to.value_type if pa.types.is_list(to) else None
        if pair is None or not pa.types.is_struct(pair) or _names(pair) != ["key", "value"]:
            raise other(where, f"a map is no {to}: declare array<struct<key:type,value:type>>")
        entry, get = field.message_type.fields_by_name, attrgetter(field.name)
        key_of = self._value(entry["key"], pair.field("key").type, f"{where}{{}}")
        value_of = self._value(entry["value"], pair.field("value").type, f"{where}{{}}")

        def entries(message: Any) -> list[dict[str, Any]]:
            found = get(message)
            if bytes in map(type, found):  # proto2 lets them pass, and has no order for them
                raise Refusal(Reason.INVALID_UTF8, f"a key is not valid UTF-8 - at `{where}`")
            return [{"key": key_of(key), "value": value_of(found[key])} for key in sorted(found)]

        return entries

    def _value(self, field: "FieldDescriptor", to: pa.DataType, where: str) -> Convert:
        """One value: of a repeated field one of its items."""
        if where == DELETED_AT and NAMES[field.type] == "string" and pa.types.is_boolean(to):
            convert: Convert | None = _exact.flag
        elif field.message_type is None:
            convert = conversion(field, to)
        elif pa.types.is_struct(to):
            return self._struct(field.message_type, to, where)
        else:
            convert = self._known(field.message_type, to)
        if convert is None:
            kind = field.message_type.full_name if field.message_type else NAMES[field.type]
            raise other(where, f"{kind} is not read as {to}")
        return convert if convert is same else _with_place(convert, where)

    def _known(self, message: "Descriptor", to: pa.DataType) -> Convert | None:
        convert, check = known(message, to), self.sound(message, None)
        return convert and (lambda value: convert(check(value)))

    def _struct(self, message: "Descriptor", to: pa.DataType, where: str) -> Convert:
        check = self.sound(message, _names(to), where)
        members = [(one.name, self.field(message, one.name, one.type, where)) for one in to]

        def struct(value: Any) -> dict[str, Any]:
            check(value)
            return {name: read(value) for name, read in members}

        return struct


def _nothing(_: Any) -> None:
    return None


def _single(field: "FieldDescriptor", convert: Convert, has: Has) -> Read:
    name, get = field.name, attrgetter(field.name)
    if not field.has_presence:
        return get if convert is same else lambda message: convert(get(message))
    if convert is same:
        return lambda message: get(message) if has(message, name) else None
    return lambda message: convert(get(message)) if has(message, name) else None


def _each(name: str, convert: Convert) -> Read:
    get = attrgetter(name)
    return lambda message: [convert(one) for one in get(message)]


def _another(message: "Descriptor", numbers: Collection[str]) -> Refusal:
    return Refusal(
        Reason.NO_DECLARED_FIELD,
        f"no field of {message.full_name} is set, but others that it does not know:"
        f" {', '.join(sorted(numbers)[:5])}",
    )


def _names(of: Iterable[pa.Field]) -> list[str]:
    return [member.name for member in of]


def _misread(name: str, message: "Descriptor") -> Refusal:
    return Refusal(
        Reason.WRONG_TYPE,
        f"field {name} of {message.full_name} is written as another type, or is a value that its"
        " enum lacks",
    )


def _with_place(convert: Convert, where: str) -> Convert:
    def with_place(value: Any) -> Any:
        try:
            return convert(value)
        except Refusal as refusal:
            raise Refusal(refusal.reason, f"{refusal.detail} - at `{where}`") from None

    return with_place
