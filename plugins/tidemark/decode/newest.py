"""Newest: the columns that a subject's newest schema has, for `schema: registry`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.decode.errors import SubjectUnreadable, SubjectWithoutField
from tidemark.decode.outcome import Refusal
from tidemark.decode.registry import PROTOBUF, SERIALIZED, Registry
from tidemark.decode.written import Written, flattened
from tidemark.decode.written_fields import Fields, of_avro, of_protobuf, row_of, types_of_avro
from tidemark.errors import InvalidSettings
from tidemark.settings.fields import arrow_type
from tidemark.settings.format import Format

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a schema."""

    within: str | None = None
    """The fields of the record that this field is; none: those of the whole."""
    message: str | None = None
    """The full name of a message, of a schema that has several."""


@dataclass(frozen=True, slots=True)
class Newest:
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


def newest(registry: Registry, format_name: str, subject: str, asked: Asked) -> Newest:
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
        raise SubjectWithoutField(subject=subject, version=version)
    return Newest(subject, version, fields, message)


def _of_avro(written: Written, asked: Asked) -> Found:
    from tidemark.decode.avro_reader import Readers

    types, named = types_of_avro(written, asked.within)

    def read(name: str, to: pa.DataType) -> object:
        return Readers(named, refuses_new=True).reader(types[name], to)

    return _whole(of_avro(written, asked.within), read), None


def _of_protobuf(written: Written, asked: Asked) -> Found:
    from tidemark.decode.protobuf_reader import Reader
    from tidemark.decode.protobuf_schema import Schema

    written.refuse_other_than(PROTOBUF)
    message = Schema(flattened(written)).named(asked.message)
    of: Descriptor = message.DESCRIPTOR
    row, reader = row_of(of, asked.within), Reader(message.HasField, refuses_new=True)

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
    Format.avro: (None, _of_avro),
    Format.protobuf: (SERIALIZED, _of_protobuf),
}
"""In which form the registry is asked for a schema, and how its fields are found."""
