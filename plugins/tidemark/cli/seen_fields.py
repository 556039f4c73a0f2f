"""Seen fields: what the first values of a topic tell of their fields, and what they leave open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.cli.faults import SchemaNotHad
from tidemark.decode.infer import NO_TYPE, documents, inferred, unions
from tidemark.decode.inferred import MIXED, NOTHING, Kind, kinds
from tidemark.decode.outcome import Refusal
from tidemark.decode.port import Decoding
from tidemark.errors import InvalidSettings, SchemaMismatch
from tidemark.settings.decode import Envelope
from tidemark.settings.field_types import check_names
from tidemark.settings.fields import arrow_schema
from tidemark.settings.format import Format
from tidemark.staging.columns import columns_of

_OF_A_CHANGE = {"before", "after", "op"}
_ADDED = {None: [], Envelope.debezium: ["deleted"]}
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
    """The envelope of the values, if they are change events; and the fields of their rows.

    Raises:
        InvalidSettings: the schema of the last value can't be had.
        Unreachable: the registry does not answer.
    """
    envelope = Envelope.debezium if _are_changes(decoding, values) else None
    within = replace(decoding, envelope=envelope and str(envelope))
    return within.envelope, list(_fit(_seen(within, values), _ADDED[envelope]))


def _are_changes(decoding: Decoding, values: Sequence[bytes]) -> bool:
    """Whether they are what Debezium writes, bare or as a payload."""
    if decoding.format != Format.json:
        return {*_fields(decoding, values)} >= _OF_A_CHANGE
    found = [one.get("payload", one) for one in documents(decoding, values)]
    return bool(found) and all(isinstance(one, dict) and {*one} >= _OF_A_CHANGE for one in found)


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
        raise SchemaNotHad(cause=refusal.detail) from refusal


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
