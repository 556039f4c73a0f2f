"""Proposal: how records like the first ones of a topic may be decoded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemark.cli.faults import (
    NoRecordToSee,
    RegistryNotNamed,
    SchemaKindUnknown,
    SchemaNotHad,
    ValuesUntold,
    ValuesWithoutField,
)
from tidemark.cli.seen_fields import Field, seen_fields
from tidemark.decode.header_ids import VALUE, HeaderIds
from tidemark.decode.likeness import Likeness, is_framed, likeness, schema_id
from tidemark.decode.outcome import Refusal
from tidemark.decode.port import Decoding
from tidemark.settings.format import Format, Framing

if TYPE_CHECKING:
    from tidemark.settings.connections import Connection

Record = dict[str, Any]
"""As `raw_records` gives it: value and headers."""

_FORMATS = {"AVRO": Format.avro, "PROTOBUF": Format.protobuf}
"""By the kind of a schema."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """How to decode, and what speaks for it."""

    records: int
    """That were looked at."""
    looks: Mapping[Likeness, int]
    """What their values look like, the most frequent first."""
    decode: Mapping[str, Any]
    """The section `decode`, without its schema."""
    fields: Sequence[Field] = ()
    metadata: Sequence[str] = ()
    """Of the records, wanted as columns too."""

    @property
    def declared(self) -> dict[str, str]:
        """The schema to declare."""
        return {one.name: one.type for one in self.fields if one.type}

    @property
    def section(self) -> dict[str, Any]:
        """The whole section `decode`."""
        more = {"metadata": [*self.metadata], "schema": self.declared}
        return {**self.decode, **{key: value for key, value in more.items() if value}}


def proposal(
    records: Sequence[Record], registry: "Connection | None", *, as_bytes: bool = False
) -> Proposal:
    """How records like these are decoded; `registry` is asked if schema ids stand in front.

    Raises:
        InvalidSettings: there is no record, or none that tells a field; with what they look like.
        Unreachable: the registry does not answer.
    """
    if not records:
        raise NoRecordToSee
    values = [_framed(one) for one in records]
    looks = dict(Counter(map(likeness, values)).most_common())
    if as_bytes:
        return Proposal(len(records), looks, {"format": str(Format.raw)})
    found = next((one for one in looks if one is not Likeness.nothing), Likeness.nothing)
    chosen = [value for value in values if value and likeness(value) is found]
    in_headers = values != [one["value"] for one in records]
    decoding = _decoding(found, chosen, registry, in_headers=in_headers)
    envelope, fields = seen_fields(decoding, chosen)
    if not any(one.type for one in fields):
        raise ValuesWithoutField(looks=str(found))
    return Proposal(len(records), looks, _section(decoding, envelope, registry), fields)


def _framed(record: Record) -> bytes | None:
    """The value; behind its schema's id where a header holds that."""
    headers = [(one["key"], one["value"]) for one in record["kafka_headers"] or ()]
    for has_path in (False, True):
        found = HeaderIds(VALUE, has_path=has_path).framed(record["value"], headers)
        if not isinstance(found, Refusal):
            return found
    value: bytes | None = record["value"]
    return value


def _decoding(
    found: Likeness,
    values: Sequence[bytes],
    registry: "Connection | None",
    *,
    in_headers: bool,
) -> Decoding:
    """How values that look so are decoded, before their fields are known."""
    if found is Likeness.json:
        return Decoding(str(Format.json))
    framing = str(Framing.headers if in_headers else Framing.registry)
    if found is Likeness.framed_json:
        return Decoding(str(Format.json), framing=framing)
    if not is_framed(found):
        raise ValuesUntold(looks=str(found))
    if registry is None:
        raise RegistryNotNamed(looks=str(found), schema=schema_id(values[-1]))
    return _of_registry(schema_id(values[-1]), registry, framing)


def _of_registry(number: int | str, connection: "Connection", framing: str) -> Decoding:
    """As the registry says: only it knows what kind of schema an id is of."""
    from tidemark.decode.registry import registry_of
    from tidemark.decode.registry_config import registry_config

    config = registry_config(connection)
    try:
        kind = registry_of(config).schema(number).kind
    except Refusal as refusal:
        raise SchemaNotHad(schema=number, cause=refusal.detail) from refusal
    if kind not in _FORMATS:
        raise SchemaKindUnknown(schema=number, kind=str(kind))
    return Decoding(str(_FORMATS[kind]), framing=framing, registry=config)


def _section(
    decoding: Decoding, envelope: str | None, registry: "Connection | None"
) -> dict[str, Any]:
    found: dict[str, Any] = {"format": decoding.format}
    if decoding.registry and registry:
        found["registry"] = registry.conn_id
    if decoding.framing and not (decoding.registry and decoding.framing == Framing.registry):
        found["framing"] = decoding.framing
    if envelope:
        found["envelope"] = envelope
    return found
