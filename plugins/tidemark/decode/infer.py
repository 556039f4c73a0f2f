"""From the first values of a topic to fields that a person may declare.

JSON tells its fields by its values, Avro and Protobuf by the schema of the last one read. A kind
here is a type's name, a dict of members, a list of one item's kind, or one of the two that declare
nothing: only nulls were seen, or values that no type holds together. What format the values look
like is judged for a person who does not know what the topic holds.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import reduce
from typing import Any

import msgspec
import pyarrow as pa

from tidemark.decode._check import MAX_DEPTH
from tidemark.decode._columns import INSTANT, is_read
from tidemark.decode._connect import payload_of
from tidemark.decode.framing import SchemaId, message_path, unframed, varint
from tidemark.decode.port import Decoding, Refusal
from tidemark.decode.registry import Written, flattened, registry_of
from tidemark.decode.registry_columns import Fields, of_avro, of_protobuf, unions_of_avro
from tidemark.settings.decode import DELETED_FIELD, Envelope
from tidemark.settings.field_types import parse_type
from tidemark.settings.format import Format

NOTHING, MIXED = "only nulls", "values of several kinds"

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}Z?")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ Tt][0-9:]+(\.[0-9]{1,9})?([Zz]|[+-][0-9:]+)?")
_NARROW = {
    ("bigint", "decimal(38,0)"): "decimal(38,0)",
    ("bigint", "double"): "double",
    ("decimal(38,0)", "double"): "double",
    ("date", "timestamp"): "timestamp",
    ("date", "string"): "string",
    ("string", "timestamp"): "string",
}

Kind = str | dict[str, Any] | list[Any]


def kinds(documents: Iterable[dict[str, Any]]) -> dict[str, Kind]:
    """Of objects' fields, in the order in which they were first seen."""
    found: Kind = {}
    merged = reduce(_merged, map(_kind, documents), found)
    return merged if isinstance(merged, dict) else {}


def declared(kind: Kind) -> str | None:
    """The type's text; None where none can be declared. Members without a type are left out."""
    if isinstance(kind, dict):
        members = {name: declared(one) for name, one in kind.items() if _is_name(name)}
        inner = ",".join(f"{_quoted(name)}:{text}" for name, text in members.items() if text)
        return f"struct<{inner}>" if inner else None
    if isinstance(kind, list):
        item = declared(kind[0])
        return item and f"array<{item}>"
    return None if kind in (NOTHING, MIXED) else kind


def _is_name(name: str) -> bool:
    try:
        parse_type(f"struct<{_quoted(name)}:int>")
    except ValueError:
        return False
    return True


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name}`"


def _kind(value: Any, depth: int = 0) -> Kind:
    match value:
        case dict() | list() if depth > MAX_DEPTH:
            return MIXED
        case None:
            return NOTHING
        case bool():
            return "boolean"
        case int():
            return _whole(value)
        case float():
            return "double"
        case str():
            return _of_text(value)
        case list():
            nothing: Kind = NOTHING
            return [reduce(_merged, (_kind(one, depth + 1) for one in value), nothing)]
        case _:
            return {name: _kind(one, depth + 1) for name, one in value.items()}


def _whole(value: int) -> str:
    if -(2**63) <= value < 2**63:
        return "bigint"
    return "decimal(38,0)" if abs(value) < 10**38 else MIXED


def _of_text(value: str) -> str:
    """A time is one if it is read as one."""
    if _DATE.fullmatch(value) and is_read(value, pa.date32()):
        return "date"
    is_instant = _INSTANT.fullmatch(value) and is_read(value, INSTANT)
    return "timestamp" if is_instant else "string"


def _merged(one: Kind, other: Kind) -> Kind:
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        names = dict.fromkeys([*one, *other])
        return {name: _merged(one.get(name, NOTHING), other.get(name, NOTHING)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    if isinstance(one, str) and isinstance(other, str):
        first, second = sorted((one, other))
        return _NARROW.get((first, second), MIXED)
    return MIXED


Values = Sequence[bytes]
NO_TYPE = "no type holds what it has"


def inferred(decoding: Decoding, values: Values) -> Fields:
    """The fields that these values have, and their types; none where nothing can be read.

    Raises:
        Refusal: the schema of the last value is not known, or none.
        Unreachable: the registry does not answer.
    """
    found = _FORMATS[decoding.format](decoding, values) if values else {}
    if DELETED_FIELD in found and _tells_deletions(decoding, values, found[DELETED_FIELD]):
        found[DELETED_FIELD] = "boolean"
    return found


def _tells_deletions(decoding: Decoding, values: Values, kind: str | None) -> bool:
    """Whether the field of flattened events is what they have, as a boolean or as its text."""
    if decoding.envelope == Envelope.debezium or decoding.format != Format.json:
        return decoding.envelope != Envelope.debezium and kind == "string"
    said = [one.get(DELETED_FIELD) for one in documents(decoding, values)]
    told = [one for one in said if one is not None]
    return bool(told) and all(isinstance(one, bool) or one in ("true", "false") for one in told)


def unions(decoding: Decoding, values: Values) -> dict[str, str]:
    """In words the fields that may be of several types, where a schema tells of them."""
    if decoding.format != Format.avro or not values:
        return {}
    return unions_of_avro(*_written_avro(decoding, values))


def _of_json(decoding: Decoding, values: Values) -> Fields:
    return {name: declared(kind) for name, kind in kinds(documents(decoding, values)).items()}


def documents(decoding: Decoding, values: Values) -> list[dict[str, Any]]:
    """The JSON objects among the values: of an envelope their rows."""
    found = []
    for value in values:
        try:
            body = value[unframed(value)[1] :] if decoding.framing else value
            within = payload_of(body) if decoding.envelope == Envelope.connect else body
            if within is None or isinstance(within, Refusal):
                continue
            document = msgspec.json.decode(within)
        except (Refusal, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        document = _row(document) if decoding.envelope == Envelope.debezium else document
        found += [document] if isinstance(document, dict) else []
    return found


def _row(event: Any) -> Any:
    """Of a change event."""
    event = event.get("payload", event) if isinstance(event, dict) else {}
    return (event.get("after") or event.get("before")) if isinstance(event, dict) else None


def _of_avro(decoding: Decoding, values: Values) -> Fields:
    return of_avro(*_written_avro(decoding, values))


def _written_avro(decoding: Decoding, values: Values) -> tuple[Written, str | None]:
    """The schema of the last value, and the member that is the row."""
    schema_id, _ = unframed(values[-1])
    written = registry_of(decoding.registry).schema(schema_id)
    return written, "after" if decoding.envelope else None


def _of_protobuf(decoding: Decoding, values: Values) -> Fields:
    from tidemark.decode._protobuf_schema import MessageSchema, message_of_set

    if not decoding.registry:
        message = message_of_set(decoding.descriptors, decoding.message)
    else:
        schema_id, at = unframed(values[-1])
        path, _ = message_path(values[-1], at)
        written = registry_of(decoding.registry).serialized(schema_id)
        message = MessageSchema(flattened(written)).message(path)
    return of_protobuf(message.DESCRIPTOR, "after" if decoding.envelope else None)


_FORMATS: dict[str, Callable[[Decoding, Values], Fields]] = {
    Format.json: _of_json,
    Format.avro: _of_avro,
    Format.protobuf: _of_protobuf,
}


class ValueKind(StrEnum):
    """What a value looks like, in words."""

    json = "JSON objects"
    framed_json = "JSON objects behind a schema id"
    avro = "Avro behind a schema id"
    protobuf = "Protobuf behind a schema id"
    other_json = "JSON that is no object"
    container = "a file of Avro in each value (an object container)"
    marked = "text behind a byte order mark, which JSON may not have"
    xml = "XML"
    gzip = "gzip"
    text = "text that is no JSON"
    unknown = "bytes of no format that Tidemark knows"
    nothing = "no value"


_FRAMED = (ValueKind.framed_json, ValueKind.avro, ValueKind.protobuf)
_MAGIC = {
    b"Obj\1": ValueKind.container,
    b"\x1f\x8b": ValueKind.gzip,
    b"<": ValueKind.xml,
    b"\xef\xbb\xbf": ValueKind.marked,
}

_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
_WIDTHS = {_EIGHT: 8, _FOUR: 4}
MOST_FIELD = 2**29 - 1
"""Of Protobuf."""


def value_kind(value: bytes | None) -> ValueKind:
    """What the value looks like; of Avro and Protobuf behind an id only a registry is sure."""
    if not value:
        return ValueKind.nothing
    if (document := parsed(value)) is not None:
        return ValueKind.json if isinstance(document, dict) else ValueKind.other_json
    try:
        _, at = unframed(value)
    except Refusal:
        return _unframed(value)
    if isinstance(parsed(value[at:]), dict):
        return ValueKind.framed_json
    return ValueKind.protobuf if _is_protobuf(value, at) else ValueKind.avro


def is_framed(found: ValueKind) -> bool:
    """Whether a schema id stands in front."""
    return found in _FRAMED


def schema_id(value: bytes) -> SchemaId:
    """The id in front of a framed value."""
    return unframed(value)[0]


def parsed(value: bytes) -> Any:
    """The JSON document; None where it is none, or null."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unframed(value: bytes) -> ValueKind:
    for magic, found in _MAGIC.items():
        if value.startswith(magic):
            return found
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ValueKind.unknown
    is_text = all(c.isprintable() or c.isspace() for c in text)
    return ValueKind.text if is_text else ValueKind.unknown


def _is_protobuf(value: bytes, at: int) -> bool:
    """Whether fields of a message fill the value to its end: Avro's rarely do by chance."""
    try:
        _, at = message_path(value, at)
        while at < len(value):
            at = _behind_field(value, at)
    except (Refusal, IndexError):
        return False
    return at == len(value)


def _behind_field(value: bytes, at: int) -> int:
    """Where the next field begins.

    Raises:
        IndexError: no field stands there.
    """
    tag, at = varint(value, at)
    number, kind = tag >> 3, tag & 7
    if not 1 <= number <= MOST_FIELD:
        raise IndexError(number)
    if kind == _VARINT:
        return varint(value, at)[1]
    if kind == _SIZED:
        size, at = varint(value, at)
        return at + size
    if kind not in _WIDTHS:
        raise IndexError(kind)
    return at + _WIDTHS[kind]
