"""How records like the first ones of a topic may be decoded: a format, fields and their types."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidemark.cli.faults import FieldsNotTold, NoRecordToSee, RegistryNotNamed, SchemaNotHad
from tidemark.decode.framing import VALUE, HeaderIds
from tidemark.decode.infer import (
    MIXED,
    NO_TYPE,
    NOTHING,
    Kind,
    ValueKind,
    documents,
    inferred,
    is_framed,
    kinds,
    schema_id,
    unions,
    value_kind,
)
from tidemark.decode.port import Decoding, Refusal
from tidemark.decode.record_types import CHANGE, PAYLOAD, WRAPPED_CHANGE, RecordTypes, record_types
from tidemark.decode.registry import registry_config, registry_of
from tidemark.errors import InvalidSettings, SchemaMismatch
from tidemark.settings.decode import DELETED_FIELD, Envelope
from tidemark.settings.field_types import check_names
from tidemark.settings.fields import arrow_schema
from tidemark.settings.format import Format, Framing
from tidemark.staging.columns import columns_of

if TYPE_CHECKING:
    from tidemark.settings.connections import Connection


_ADDED = {None: [], Envelope.debezium: ["deleted"], Envelope.connect: []}
"""Columns that an envelope adds."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the values."""

    name: str
    type: str | None
    """To declare; None: it is left out."""
    why: str = ""
    """Why it is left out."""
    nulls: int | None = None
    """Values in which it is null or missing; None where a schema told of the field."""


def seen_fields(decoding: Decoding, values: Sequence[bytes]) -> tuple[str | None, list[Field]]:
    """What is around the rows of the values, if it can be taken off; and the fields of the rows.

    Raises:
        InvalidSettings: the schema of the last value can't be had.
        Unreachable: the registry does not answer.
    """
    envelope = _envelope(record_types(decoding, values).wrappers)
    within = replace(decoding, envelope=envelope and str(envelope))
    return within.envelope, list(_fit(_seen(within, values), _ADDED[envelope]))


def _envelope(wrappers: Mapping[str, int]) -> Envelope | None:
    """Debezium's, if most values are change events; Connect's, if any is a payload."""
    changes = wrappers.get(CHANGE, 0) + wrappers.get(WRAPPED_CHANGE, 0)
    if 2 * changes > sum(wrappers.values()):
        return Envelope.debezium
    return Envelope.connect if PAYLOAD in wrappers else None


def _seen(decoding: Decoding, values: Sequence[bytes]) -> Iterator[Field]:
    if decoding.format != Format.json:
        told = unions(decoding, values)
        for name, text in _fields(decoding, values).items():
            yield Field(name, text, "" if text else told.get(name, NO_TYPE))
        return
    rows = documents(decoding, values)
    types, found = _fields(decoding, values), kinds(rows)
    for name, text in types.items():
        nulls = sum(one.get(name) is None for one in rows)
        yield Field(name, text, "" if text else _open(found[name]), nulls)


def _fields(decoding: Decoding, values: Sequence[bytes]) -> dict[str, str | None]:
    try:
        return inferred(decoding, values)
    except Refusal as refusal:
        raise SchemaNotHad(schema="the schema", cause=refusal.detail) from refusal


def _open(kind: Kind) -> str:
    """Why no type is declared for it."""
    return kind if kind in (NOTHING, MIXED) else "what it has within has no type"


def _fit(fields: Iterator[Field], taken: Sequence[str]) -> Iterator[Field]:
    """The same; a field that can't be a column is left out."""
    names = [*taken]
    for one in fields:
        why = _refused(one, names) if one.type else ""
        yield replace(one, type=None, why=why) if why else one
        names += [one.name] if one.type and not why else []


def _refused(one: Field, names: Sequence[str]) -> str:
    try:
        columns_of(arrow_schema({one.name: one.type or ""}))
        check_names([*names, one.name])
    except (InvalidSettings, SchemaMismatch) as error:
        return str(error).rpartition("\n")[2].strip()
    return ""


Record = dict[str, Any]
"""As `raw_records` gives it: value and headers."""

_FORMATS = {"AVRO": Format.avro, "PROTOBUF": Format.protobuf}
"""By the kind of a schema."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """How to decode, and what speaks for it."""

    records: int
    """That were looked at."""
    looks: Mapping[ValueKind, int]
    """What their values look like, the most frequent first."""
    decode: Mapping[str, Any]
    """The section `decode`, without its schema."""
    fields: Sequence[Field] = ()
    types: RecordTypes = field(default_factory=RecordTypes)
    """Of the values that are decoded so."""
    metadata: Sequence[str] = ()
    """Of the records, wanted as columns too."""

    @property
    def declared(self) -> dict[str, str]:
        """The schema to declare."""
        return {one.name: one.type for one in self.fields if one.type}

    @property
    def tells_deletions(self) -> bool:
        """Whether a field of flattened events does, as a boolean."""
        is_event = self.decode.get("envelope") == Envelope.debezium
        return not is_event and self.declared.get(DELETED_FIELD) == "boolean"

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
    looks = dict(Counter(map(value_kind, values)).most_common())
    if as_bytes:
        return Proposal(len(records), looks, {"format": str(Format.raw)})
    found = next((one for one in looks if one is not ValueKind.nothing), ValueKind.nothing)
    chosen = [value for value in values if value and value_kind(value) is found]
    in_headers = values != [one["value"] for one in records]
    decoding = _decoding(found, chosen, registry, in_headers=in_headers)
    envelope, fields = seen_fields(decoding, chosen)
    if not any(one.type for one in fields):
        raise FieldsNotTold(fact=f"its values look like {found} and tell no field")
    types = record_types(decoding, chosen)
    section = _section(decoding, envelope, registry)
    return Proposal(len(records), looks, section, fields=fields, types=types)


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
    found: ValueKind, values: Sequence[bytes], registry: "Connection | None", *, in_headers: bool
) -> Decoding:
    """How values that look so are decoded, before their fields are known."""
    if found is ValueKind.json:
        return Decoding(str(Format.json))
    framing = str(Framing.headers if in_headers else Framing.registry)
    if found is ValueKind.framed_json:
        return Decoding(str(Format.json), framing=framing)
    if not is_framed(found):
        raise FieldsNotTold(fact=f"its values look like {found}")
    if registry is None:
        raise RegistryNotNamed(looks=str(found), schema=schema_id(values[-1]))
    return _of_registry(schema_id(values[-1]), registry, framing)


def _of_registry(number: int | str, connection: "Connection", framing: str) -> Decoding:
    """As the registry says: only it knows what kind of schema an id is of."""
    config = registry_config(connection)
    try:
        kind = registry_of(config).schema(number).kind
    except Refusal as refusal:
        raise SchemaNotHad(schema=f"schema {number}", cause=refusal.detail) from refusal
    if kind not in _FORMATS:
        raise FieldsNotTold(fact=f"schema {number} of its values is of the kind {kind}")
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
