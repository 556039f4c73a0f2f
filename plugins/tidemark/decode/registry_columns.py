"""The columns that a subject's newest schema has, for `schema: registry`.

Field by field: what a writer's schema would be declared as, or None where no declared type reads
the field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.decode.errors import SubjectUnreadable
from tidemark.decode.port import Refusal
from tidemark.decode.registry import PROTOBUF, SERIALIZED, Registry, Written, flattened
from tidemark.errors import InvalidSettings
from tidemark.settings.fields import arrow_type
from tidemark.settings.format import Format

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


Fields = dict[str, str | None]
MAX_DEPTH = 4
MAX_PARTS = 10_000
"""Of one field: a schema may contain itself, or name a type millions of times."""

_AVRO = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "string": "string", "bytes": "binary", "fixed": "binary", "enum": "string",
}  # fmt: skip
_PROTOBUF = {
    "bool": "boolean", "string": "string", "bytes": "binary", "enum": "string", "float": "float",
    "double": "double", "uint64": "decimal(20,0)", "fixed64": "decimal(20,0)", "int32": "int",
    "sint32": "int", "sfixed32": "int",
}  # fmt: skip
_KNOWN = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "decimal(21,9)",
    "google.protobuf.Struct": "string",
    "google.protobuf.Value": "string",
    "google.protobuf.ListValue": "string",
    "google.type.Date": "date",
    "confluent.type.Decimal": "decimal(38,9)",
}


class _Place:
    """Where a type stands in a field."""

    def __init__(self, depth: int = 0, parts: "count[int] | None" = None) -> None:
        self._depth = depth
        self._parts = parts or count(1)

    @property
    def is_beyond(self) -> bool:
        """Whether it is too deep, or too many stand before it; it is counted by this."""
        return next(self._parts) > MAX_PARTS or self._depth > MAX_DEPTH

    @property
    def within(self) -> "_Place":
        """That of what it has within."""
        return _Place(self._depth + 1, self._parts)


def of_avro(written: Written, within: str | None = None) -> Fields:
    """The fields of a record, or of one that it has within; none of another schema."""
    types, named = types_of_avro(written, within)
    return {name: _read_avro(kind, named) for name, kind in types.items()}


def unions_of_avro(written: Written, within: str | None = None) -> dict[str, str]:
    """The same fields that are unions of several types: `union of string and int`."""
    types, _ = types_of_avro(written, within)
    return {
        name: f"union of {' and '.join(map(_name_of, branches))}"
        for name, kind in types.items()
        if isinstance(kind, list) and len(branches := [one for one in kind if one != "null"]) > 1
    }


def _name_of(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    known = (branch.get(key) for key in ("name", "logicalType", "type"))
    return next(str(one) for one in known if one)


def _read_avro(kind: Any, named: dict[str, Any]) -> str | None:
    """The type, if values are read so."""
    from tidemark.decode._avro_reader import Readers

    if found := _of_avro(kind, named, _Place()):
        try:
            Readers(named).reader(kind, arrow_type("", found))
        except (Refusal, InvalidSettings):
            return None
    return found


def types_of_avro(
    written: Written, within: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same fields with their types as fastavro's parser gives them; and all named types."""
    from tidemark.decode._avro import parsed

    schema, named = parsed(written)
    found = _members(schema, named)
    for one in found if within else ():
        if one["name"] == within:
            found = _members(one["type"], named)
            break
    return {one["name"]: one["type"] for one in found}, named


def _members(schema: Any, named: dict[str, Any]) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        schema = next((one for one in schema if one != "null"), "null")
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    return list(schema["fields"]) if schema["type"] == "record" else []


def _of_avro(schema: Any, named: dict[str, Any], at: _Place) -> str | None:
    if at.is_beyond:
        return None
    if isinstance(schema, list):
        branches = [one for one in schema if one != "null"]
        return _of_avro(branches[0], named, at.within) if len(branches) == 1 else None
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    if "logicalType" in schema:
        return _of_logical(schema) or _AVRO.get(schema["type"])
    return _of_nested(schema, named, at.within) or _AVRO.get(schema["type"])


def _of_nested(schema: Any, named: dict[str, Any], at: _Place) -> str | None:
    match schema["type"]:
        case "record":
            members = ((one["name"], one["type"]) for one in schema["fields"])
            return _struct((name, _of_avro(kind, named, at)) for name, kind in members)
        case "array":
            return _array(_of_avro(schema["items"], named, at))
        case "map":
            return _pairs("string", _of_avro(schema["values"], named, at))
    return None


def _of_logical(schema: Any) -> str | None:
    kind, logical = schema["type"], schema["logicalType"]
    if logical == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        return f"decimal({precision},{scale})" if 0 <= scale <= precision <= 38 else None
    if logical == "uuid":
        return "string"
    if logical == "date" and kind == "int":
        return "date"
    name = logical.removeprefix("local-").partition("-")[0]
    return "timestamp" if name == "timestamp" and kind == "long" else None


def of_protobuf(message: "Descriptor", within: str | None = None) -> Fields:
    """The fields of a message, or of one that it has within."""
    return {one.name: _of_field(one, _Place()) for one in row_of(message, within).fields}


def row_of(message: "Descriptor", within: str | None) -> "Descriptor":
    """The message that has them."""
    inner = message.fields_by_name.get(within) if within else None
    return (inner.message_type if inner else None) or message


def _of_fields(message: "Descriptor", at: _Place) -> Fields:
    return {one.name: _of_field(one, at) for one in message.fields}


def _of_field(field: "FieldDescriptor", at: _Place) -> str | None:
    if at.is_beyond:
        return None
    within = field.message_type
    if within and within.GetOptions().map_entry:
        pair = _of_fields(within, at.within)
        return _pairs(pair["key"], pair["value"])
    found = _of_message(within, at) if within else _of_plain(field)
    return _array(found) if field.is_repeated else found


def _of_message(message: "Descriptor", at: _Place) -> str | None:
    from tidemark.decode._protobuf_schema import WRAPPERS, is_builtin

    if is_builtin(message, message.full_name):
        if message.full_name in _KNOWN:
            return _KNOWN[message.full_name]
        if message.file.name == WRAPPERS:
            return _of_plain(message.fields_by_name["value"])
    return _struct(_of_fields(message, at.within).items())


def _of_plain(field: "FieldDescriptor") -> str:
    from tidemark.decode._protobuf_reader import NAMES

    return _PROTOBUF.get(NAMES[field.type], "bigint")


def _struct(members: Any) -> str | None:
    inner = ",".join(f"{name}:{text}" for name, text in members if text)
    return f"struct<{inner}>" if inner else None


def _array(item: str | None) -> str | None:
    return item and f"array<{item}>"


def _pairs(key: str | None, value: str | None) -> str | None:
    return key and value and f"array<struct<key:{key},value:{value}>>"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a schema."""

    within: str | None = None
    """The fields of the record that this field is; none: those of the whole."""
    message: str | None = None
    """The full name of a message, of a schema that has several."""


@dataclass(frozen=True, slots=True)
class NewestSchema:
    """The newest version of a subject."""

    subject: str
    version: int
    fields: Fields
    """In the schema's order; None where no declared type holds all that a field may have."""
    message: str | None = None
    """The full name of the message that has them, of a format whose schemas have several."""

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


Found = tuple[Fields, str | None]
"""Fields, and the message that has them."""


def newest(registry: Registry, format_name: str, subject: str, asked: Asked) -> NewestSchema:
    """What the registry says now.

    Raises:
        InvalidSettings: there is no such subject, or its schema is no record of this format.
        Unreachable: the registry does not answer.
    """
    form, read = _FORMATS[format_name]
    version, written = registry.latest(subject, form)
    try:
        fields, message = read(written, asked)
    except Refusal as refusal:
        raise SubjectUnreadable(subject=subject, version=version, cause=refusal.detail) from refusal
    if not fields:
        cause = "it has no field: name the subject of a record"
        raise SubjectUnreadable(subject=subject, version=version, cause=cause)
    return NewestSchema(subject, version, fields, message)


def _avro_columns(written: Written, asked: Asked) -> Found:
    from tidemark.decode._avro_reader import Readers

    types, named = types_of_avro(written, asked.within)

    def read(name: str, to: pa.DataType) -> object:
        return Readers(named, refuses_new=True).reader(types[name], to)

    return _whole(of_avro(written, asked.within), read), None


def _of_protobuf(written: Written, asked: Asked) -> Found:
    from tidemark.decode._protobuf_reader import FieldReader
    from tidemark.decode._protobuf_schema import MessageSchema

    written.refuse_other_than(PROTOBUF)
    message = MessageSchema(flattened(written)).named(asked.message)
    of: Descriptor = message.DESCRIPTOR
    row, reader = row_of(of, asked.within), FieldReader(message.HasField, refuses_new=True)

    def read(name: str, to: pa.DataType) -> object:
        return reader.field(row, name, to)

    return _whole(of_protobuf(of, asked.within), read), of.full_name


def _whole(fields: Fields, read: Callable[[str, pa.DataType], object]) -> Fields:
    """The same; none where something within a field would be left out."""
    return {name: text and _if_whole(name, text, read) for name, text in fields.items()}


def _if_whole(name: str, text: str, read: Callable[[str, pa.DataType], object]) -> str | None:
    try:
        read(name, arrow_type("", text))
    except (Refusal, InvalidSettings):
        return None
    return text


_FORMATS: dict[str, tuple[str | None, Callable[[Written, Asked], Found]]] = {
    Format.avro: (None, _avro_columns),
    Format.protobuf: (SERIALIZED, _of_protobuf),
}
"""In which form the registry is asked for a schema, and how its fields are found."""
