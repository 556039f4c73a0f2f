"""What Kafka Connect puts around a row, or into it, in JSON.

Its JsonConverter writes `{"schema": …, "payload": …}` where `schemas.enable` is on. Debezium's
ExtractNewRecordState adds `__deleted`, a text; the one for MongoDB adds a boolean.
"""

import json
from contextlib import suppress

import msgspec
import pyarrow as pa

from tidemark.decode.port import MAX_VALUE_BYTES, Reason, Refusal
from tidemark.settings.decode import DELETED_FIELD


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    schema: msgspec.Raw
    payload: msgspec.Raw


PAYLOAD_NAME = b'"payload"'
_WRAPPED = msgspec.json.Decoder(_Wrapped).decode
_MOST = len(b'{"schema":,"payload":}') + len(b'"schema":0')
"""Bytes around schema and payload without a third member."""
_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)


def payload_of(value: bytes | None) -> bytes | Refusal | None:
    """What stands in the payload; the value as it is, if that is not beside a schema alone."""
    if value is None or PAYLOAD_NAME not in value or len(value) > MAX_VALUE_BYTES:
        return value
    try:
        found = _WRAPPED(value)
        schema, payload = bytes(found.schema), bytes(found.payload)
        is_twice = len(value) - len(schema) - len(payload) > _MOST and _has_more(value)
    except _ERRORS:
        return value
    if not schema.startswith(b"{") and schema != b"null":
        return value
    if is_twice:
        return Refusal(Reason.DUPLICATE_KEY, "the value has its schema or its payload twice")
    if payload == b"null":
        return Refusal(Reason.NULL_VALUE, "the payload is null")
    return payload


def _has_more(value: bytes) -> bool:
    """Whether the object has more than its two members."""
    found = json.loads(value, object_pairs_hook=list, parse_int=str, parse_float=str)
    return len(found) > len(_Wrapped.__struct_fields__)


class _Deleted(msgspec.Struct, rename={"deleted": DELETED_FIELD}, gc=False):
    deleted: msgspec.Raw = msgspec.Raw(b"")


_DELETED = msgspec.json.Decoder(_Deleted).decode
DELETED_NAME = f'"{DELETED_FIELD}"'.encode()
DELETED_AT = f"$.{DELETED_FIELD}"
"""Where a flattened event tells whether its row was deleted: fields within others tell nothing."""


def with_deleted_as_boolean(value: bytes | None) -> bytes | None:
    """The value, in which a text `true` or `false` of the field is that boolean."""
    said = _said(value)
    if value is None or bytes(said) not in (b'"true"', b'"false"'):
        return value
    at = pa.py_buffer(said).address - pa.py_buffer(value).address  # it is a view of the value
    return value[:at] + bytes(said)[1:-1] + value[at + len(bytes(said)) :]


def unless_deleted(value: bytes | None) -> bytes | Refusal | None:
    """The value, or why it is none: it says that its row was deleted."""
    return deletion() if bytes(_said(value)) in (b"true", b'"true"') else value


def _said(value: bytes | None) -> msgspec.Raw:
    """What the field holds, as it is written; nothing where there is none."""
    if value and DELETED_NAME in value:
        with suppress(*_ERRORS):
            return _DELETED(value).deleted
    return msgspec.Raw(b"")


def deletion() -> Refusal:
    """The refusal of a deletion that would be taken for a row."""
    return Refusal(
        Reason.DELETION,
        f"{DELETED_FIELD} is true, and nothing reads it: declare {DELETED_FIELD}: boolean, with"
        f" target.deleted: {DELETED_FIELD}",
    )
