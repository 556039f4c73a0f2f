"""Reading messages of Protobuf: of a message and declared columns, the functions that read them.

The library has checked the bytes. What it lets pass is looked for here: a field that is written
as another type counts as unknown there, and would be null or zero.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.decode.exact import Convert, same
from tidemark.decode.outcome import Reason, Refusal
from tidemark.decode.protobuf_types import NAMES, conversion, known

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Read = Callable[[Any], Any]
"""From a message to what stands in one of its fields."""

Has = Callable[["Message", str], bool]
"""Whether a field is there; a message may have a field of this method's name."""


def reader(message: "Descriptor", name: str, to: pa.DataType, has: Has, where: str = "$") -> Read:
    """Reads a field into the declared type; one that the writer does not have is null.

    Raises:
        Refusal: no value of this field can be read so.
    """
    field = message.fields_by_name.get(name)
    where = f"{where}.{name}"
    if field is None:
        return _nothing
    if field.message_type and field.message_type.GetOptions().map_entry:
        return _map(field, to, has, where)
    if field.is_repeated:
        if not pa.types.is_list(to):
            raise other(where, f"a repeated field is no {to}")
        return _each(name, _value(field, to.value_type, has, f"{where}[]"))
    return _single(field, _value(field, to, has, where), has)


def sound(message: "Descriptor") -> Convert:
    """Returns a message whose declared fields are of their types.

    A value that an enum of proto2 does not name counts as such a field too.
    """
    from google.protobuf.unknown_fields import UnknownFieldSet

    names = {field.number: field.name for field in message.fields}

    def checked(value: Any) -> Any:
        unknown = UnknownFieldSet(value)
        for one in unknown if len(unknown) else ():
            if one.field_number in names:
                raise Refusal(
                    Reason.WRONG_TYPE,
                    f"field {names[one.field_number]} of {message.full_name} is written as another"
                    " type, or is a value that its enum lacks",
                )
        return value

    return checked


def other(where: str, fact: str) -> Refusal:
    """The refusal of a writer's schema."""
    return Refusal(Reason.OTHER_SCHEMA, f"{fact} - at `{where}`")


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


def _map(field: "FieldDescriptor", to: pa.DataType, has: Has, where: str) -> Read:
    """Sorted by key: the library keeps no order, and rows must be the same when read again."""
    pair = to.value_type if pa.types.is_list(to) else None
    if pair is None or not pa.types.is_struct(pair) or _names(pair) != ["key", "value"]:
        raise other(where, f"a map is no {to}: declare array<struct<key:type,value:type>>")
    entry, get = field.message_type.fields_by_name, attrgetter(field.name)
    key_of = _value(entry["key"], pair.field("key").type, has, f"{where}{{}}")
    value_of = _value(entry["value"], pair.field("value").type, has, f"{where}{{}}")

    def entries(message: Any) -> list[dict[str, Any]]:
        found = get(message)
        return [{"key": key_of(key), "value": value_of(found[key])} for key in sorted(found)]

    return entries


def _names(of: Iterable[pa.Field]) -> list[str]:
    return [member.name for member in of]


def _value(field: "FieldDescriptor", to: pa.DataType, has: Has, where: str) -> Convert:
    """One value: of a repeated field one of its items."""
    if field.message_type is None:
        convert = conversion(field, to)
    elif pa.types.is_struct(to):
        return _struct(field.message_type, to, has, where)
    else:
        convert = _known(field.message_type, to)
    if convert is None:
        kind = field.message_type.full_name if field.message_type else NAMES[field.type]
        raise other(where, f"{kind} is not read as {to}")
    return convert if convert is same else _told(convert, where)


def _known(message: "Descriptor", to: pa.DataType) -> Convert | None:
    convert, check = known(message, to), sound(message)
    return convert and (lambda value: convert(check(value)))


def _struct(message: "Descriptor", to: pa.DataType, has: Has, where: str) -> Convert:
    check = sound(message)
    members = [(one.name, reader(message, one.name, one.type, has, where)) for one in to]

    def struct(value: Any) -> dict[str, Any]:
        check(value)
        return {name: read(value) for name, read in members}

    return struct


def _told(convert: Convert, where: str) -> Convert:
    def told(value: Any) -> Any:
        try:
            return convert(value)
        except Refusal as refusal:
            raise Refusal(refusal.reason, f"{refusal.detail} - at `{where}`") from None

    return told
