"""Infer: from the first values of a topic to fields that a person may declare.

JSON tells its fields by its values, Avro and Protobuf by the schema of the last one read.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidemark.decode.framing import message_path, unframed
from tidemark.decode.inferred import declared, kinds
from tidemark.decode.outcome import Refusal
from tidemark.decode.port import Decoding
from tidemark.decode.registry import registry_of
from tidemark.decode.written import Written, flattened
from tidemark.decode.written_fields import Fields, of_avro, of_protobuf, unions_of_avro
from tidemark.settings.format import Format

Values = Sequence[bytes]
NO_TYPE = "no type holds what it has"


def inferred(decoding: Decoding, values: Values) -> Fields:
    """The fields that these values have, and their types; none where nothing can be read.

    Raises:
        Refusal: the schema of the last value is not known, or none.
        Unreachable: the registry does not answer.
    """
    return _FORMATS[decoding.format](decoding, values) if values else {}


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
            document = msgspec.json.decode(body)
        except (Refusal, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        document = _row(document) if decoding.envelope else document
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
    from tidemark.decode.protobuf_schema import Schema, message_of_set

    if not decoding.registry:
        message = message_of_set(decoding.descriptors, decoding.message)
    else:
        schema_id, at = unframed(values[-1])
        path, _ = message_path(values[-1], at)
        written = registry_of(decoding.registry).serialized(schema_id)
        message = Schema(flattened(written)).message(path)
    return of_protobuf(message.DESCRIPTOR, "after" if decoding.envelope else None)


_FORMATS: dict[str, Callable[[Decoding, Values], Fields]] = {
    Format.json: _of_json,
    Format.avro: _of_avro,
    Format.protobuf: _of_protobuf,
}
