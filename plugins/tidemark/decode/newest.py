"""Newest: the columns that a subject's newest schema has, for `schema: registry`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemark.decode.outcome import Refusal
from tidemark.decode.registry import Registry
from tidemark.decode.written import Written
from tidemark.decode.written_fields import Fields, of_avro, types_of_avro
from tidemark.errors import InvalidSettings
from tidemark.settings.fields import arrow_type
from tidemark.settings.format import Format


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version of a subject."""

    subject: str
    version: int
    fields: Fields
    """In the schema's order; None where no declared type holds all that a field may have."""

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


def newest(registry: Registry, format_name: str, subject: str, within: str | None) -> Newest:
    """What the registry says now; `within`: of the record that this field is.

    Raises:
        InvalidSettings: there is no such subject, or its schema is no record of this format.
        Unreachable: the registry does not answer.
    """
    version, written = registry.latest(subject)
    found = Newest(subject, version, {})
    try:
        found = Newest(subject, version, _FORMATS[format_name](written, within))
    except Refusal as refusal:
        raise InvalidSettings(f"{found} can't be read: {refusal.detail}") from refusal
    if not found.fields:
        raise InvalidSettings(f"{found} has no field: name the subject of a record")
    return found


def _of_avro(written: Written, within: str | None) -> Fields:
    types, named = types_of_avro(written, within)
    texts = of_avro(written, within)
    return {name: _if_whole(kind, texts[name], named) for name, kind in types.items()}


def _if_whole(schema: Any, text: str | None, named: dict[str, Any]) -> str | None:
    """The type's text, if nothing within the field is left out of it."""
    from tidemark.decode.avro_reader import Readers

    try:
        if text:
            Readers(named, refuses_new=True).reader(schema, arrow_type("", text))
    except (Refusal, InvalidSettings):
        return None
    return text


_FORMATS: dict[str, Callable[[Written, str | None], Fields]] = {Format.avro: _of_avro}
