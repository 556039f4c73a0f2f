"""Likeness: what a value looks like, for a person who does not know what a topic holds."""

from enum import StrEnum
from typing import Any

import msgspec

from tidemark.decode.framing import SchemaId, message_path, unframed
from tidemark.decode.outcome import Refusal


class Likeness(StrEnum):
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


_FRAMED = (Likeness.framed_json, Likeness.avro, Likeness.protobuf)
_MAGIC = {
    b"Obj\1": Likeness.container,
    b"\x1f\x8b": Likeness.gzip,
    b"<": Likeness.xml,
    b"\xef\xbb\xbf": Likeness.marked,
}

_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
_WIDTHS = {_EIGHT: 8, _FOUR: 4}
MOST_FIELD = 2**29 - 1
"""Of Protobuf."""


def likeness(value: bytes | None) -> Likeness:
    """What the value looks like; of Avro and Protobuf behind an id only a registry is sure."""
    if not value:
        return Likeness.nothing
    if (document := parsed(value)) is not None:
        return Likeness.json if isinstance(document, dict) else Likeness.other_json
    try:
        _, at = unframed(value)
    except Refusal:
        return _unframed(value)
    if isinstance(parsed(value[at:]), dict):
        return Likeness.framed_json
    return Likeness.protobuf if _is_protobuf(value, at) else Likeness.avro


def is_framed(found: Likeness) -> bool:
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


def _unframed(value: bytes) -> Likeness:
    for magic, found in _MAGIC.items():
        if value.startswith(magic):
            return found
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return Likeness.unknown
    is_text = all(c.isprintable() or c.isspace() for c in text)
    return Likeness.text if is_text else Likeness.unknown


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
    tag, at = _varint(value, at)
    number, kind = tag >> 3, tag & 7
    if not 1 <= number <= MOST_FIELD:
        raise IndexError(number)
    if kind == _VARINT:
        return _varint(value, at)[1]
    if kind == _SIZED:
        size, at = _varint(value, at)
        return at + size
    if kind not in _WIDTHS:
        raise IndexError(kind)
    return at + _WIDTHS[kind]


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        number |= (value[at] & 0x7F) << shift
        if value[at] < 0x80:
            return number, at + 1
        at += 1
    raise IndexError(at)
