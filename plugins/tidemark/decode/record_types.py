"""Which types of records values are, and what is around their rows.

Of Avro and Protobuf the writer's schema names the type. JSON has no names: two objects are of one
type if they have a field in common, or each has one in common with a third.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tidemark.decode.framing import message_path, unframed
from tidemark.decode.infer import parsed
from tidemark.decode.port import Decoding, Refusal
from tidemark.decode.registry import Registry, flattened, registry_of
from tidemark.model.plain import amount
from tidemark.settings.format import Format

OF_A_CHANGE = {"before", "after", "op"}
BARE = "bare"
PAYLOAD = "a payload beside a schema"
CHANGE = "a change event"
WRAPPED_CHANGE = "a change event beside a schema"

_SHOWN = 5
_NO_FIELD = "no field"


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """What was found, the most frequent first."""

    types: Mapping[str, int] = field(default_factory=dict)
    """Records by the name of their type; of JSON by their fields."""
    wrappers: Mapping[str, int] = field(default_factory=dict)
    """Records by what is around their rows."""

    def __str__(self) -> str:
        told = "; ".join(f"{count} of {name}" for name, count in self.types.items())
        text = f"{amount(len(self.types), 'record type')}{told and ': '}{told}"
        if {*self.wrappers} <= {BARE}:
            return text
        around = ", ".join(f"{count} {name}" for name, count in self.wrappers.items())
        return f"{text}. Around their rows: {around}"


def record_types(decoding: Decoding, values: Sequence[bytes | None]) -> RecordTypes:
    """Of the values that can be read; none of a decoder of the user's own, or of raw bytes.

    Raises:
        Unreachable: the registry does not answer.
    """
    given = [value for value in values if value is not None]
    if decoding.format == Format.json:
        return _of_json(decoding, given)
    look = _LOOKS.get(decoding.format)
    found = [one for value in given if look and (one := _or_none(look, decoding, value))]
    return RecordTypes(_counted(name for name, _ in found), _counted(at for _, at in found))


def _counted(names: Iterator[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def _of_json(decoding: Decoding, values: Sequence[bytes]) -> RecordTypes:
    found = [_unwrapped(one) for value in values if isinstance(one := _body(decoding, value), dict)]
    types = _by_fields([row for row, _ in found])
    return RecordTypes(types, _counted(around for _, around in found))


def _body(decoding: Decoding, value: bytes) -> Any:
    try:
        return parsed(value[unframed(value)[1] :] if decoding.framing else value)
    except Refusal:
        return None


def _unwrapped(document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The row, and what was around it."""
    within = document["payload"] if {*document} == {"schema", "payload"} else None
    inner = within if isinstance(within, dict) else document
    is_within = inner is not document
    if {*inner} >= OF_A_CHANGE:
        row = inner["after"] or inner["before"]
        around = WRAPPED_CHANGE if is_within else CHANGE
        return (row if isinstance(row, dict) else {}), around
    return inner, PAYLOAD if is_within else BARE


def _by_fields(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many rows each group has whose rows have fields in common, by its first fields."""
    groups: list[tuple[dict[str, None], int]] = []
    for row in rows:
        names, count = dict.fromkeys(row), 1
        for group in [one for one in groups if names.keys() & one[0].keys() or names == one[0]]:
            groups.remove(group)
            names, count = group[0] | names, count + group[1]
        groups.append((names, count))
    groups.sort(key=lambda one: -one[1])
    return {_label([*names]): count for names, count in groups}


def _label(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else _NO_FIELD


def _or_none(look: Any, decoding: Decoding, value: bytes) -> tuple[str, str] | None:
    """The name of the type and what is around its rows; None of what can't be read."""
    try:
        name, members = look(decoding, value)
    except (Refusal, IndexError):
        return None
    return name, CHANGE if members >= OF_A_CHANGE else BARE


def _avro_type(decoding: Decoding, value: bytes) -> tuple[str, set[str]]:
    from tidemark.decode._avro_plain import index_at

    schema_id, at = unframed(value)
    schema, named = _avro_schema(registry_of(decoding.registry), schema_id)
    if isinstance(schema, list):
        schema = schema[index_at(value, at, len(schema))[0]]
    schema = named.get(schema, {"type": schema}) if isinstance(schema, str) else schema
    members = {one["name"] for one in schema.get("fields", ())}
    return str(schema.get("name", schema["type"])), members


@lru_cache(maxsize=64)
def _avro_schema(registry: Registry, schema_id: int | str) -> tuple[Any, Mapping[str, Any]]:
    from tidemark.decode._avro import parsed as parsed_schema

    return parsed_schema(registry.schema(schema_id))


def _protobuf_type(decoding: Decoding, value: bytes) -> tuple[str, set[str]]:
    if not decoding.registry:
        from tidemark.decode._protobuf_schema import message_of_set

        message = message_of_set(decoding.descriptors, decoding.message)
    else:
        schema_id, at = unframed(value)
        path, _ = message_path(value, at)
        message = _protobuf_schema(registry_of(decoding.registry), schema_id).message(path)
    return message.DESCRIPTOR.full_name, {one.name for one in message.DESCRIPTOR.fields}


@lru_cache(maxsize=64)
def _protobuf_schema(registry: Registry, schema_id: int | str) -> Any:
    from tidemark.decode._protobuf_schema import MessageSchema

    return MessageSchema(flattened(registry.serialized(schema_id)))


_LOOKS = {str(Format.avro): _avro_type, str(Format.protobuf): _protobuf_type}
