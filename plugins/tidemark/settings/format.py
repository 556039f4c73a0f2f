"""A format with its settings: how one part of a record, its value or its key, is read.

Fields that the file does not declare come from a registry or from records seen.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tidemark.settings.errors import FormatNotRegistered
from tidemark.settings.field_types import check_names, parse_type
from tidemark.settings.sections import CARRIED, CONNECTION, Strict


class SchemaSource(StrEnum):
    """Where the fields come from, if they are not declared."""

    infer = "infer"
    registry = "registry"


class OnNewField(StrEnum):
    """What a field does that is not declared."""

    ignore = "ignore"
    refuse = "refuse"
    add = "add"


class OnNoField(StrEnum):
    """What a record is that has none of the declared fields."""

    refuse = "refuse"
    row = "row"


FORMATS = ("avro", "protobuf")
"""Whose schemas say what the columns are."""


def refuse_registry(format_name: str) -> None:
    """Refuse `schema: registry` where a subject does not say what the columns are.

    Raises:
        InvalidSettings: for any other format.
    """
    if format_name not in FORMATS:
        raise FormatNotRegistered(format=format_name, allowed=FORMATS)


def _declared(text: str) -> str:
    parse_type(text)
    return text


Declared = Annotated[str, AfterValidator(_declared)]
"""A field's type, by a name of Spark SQL's DDL."""


class Format(StrEnum):
    """How a record's value becomes columns."""

    json = "json"
    raw = "raw"
    avro = "avro"
    protobuf = "protobuf"


FORMAT = rf"^({'|'.join(Format)}|[\w.]+:\w+)$"

_NEEDS: dict[str, list[str]] = {
    Format.json: ["schema"],
    Format.avro: ["schema", "registry"],
    Format.protobuf: ["schema"],
}
_OF_FIELDS = {"schema", "on_new_field", "on_no_field", "framing", "envelope", "placeholder"}
_TAKES: dict[str, set[str]] = {
    Format.json: _OF_FIELDS,
    Format.raw: set(),
    Format.avro: _OF_FIELDS | {"subject", "registry"},
    Format.protobuf: _OF_FIELDS | {"subject", "registry", "descriptor", "message"},
}
_OWN = {"schema", "options"}
"""The keys that a decoder of the user's own takes."""


MESSAGE = r"^\w+(\.\w+)*$"
FOLDER = "folder"
"""In the context of validation: where the pipeline file stands."""


class Framing(StrEnum):
    """Where the id of a value's schema stands."""

    registry = "registry"
    headers = "headers"


class FormatSettings(Strict):
    """How one part of a record becomes columns."""

    model_config = ConfigDict(populate_by_name=True)

    format: Annotated[str, Field(pattern=FORMAT)] = Format.json.value
    """json: an object a record; raw: the bytes as they are; [avro](formats-avro.md) and
    [protobuf](formats-protobuf.md): by the schema whose id stands in front (protobuf also by a
    file); module:Class: a [decoder of your own](formats-own.md)."""
    fields: Annotated[dict[str, Declared] | SchemaSource, Field(alias="schema")] = Field(
        default_factory=dict
    )
    """Field name: type; format raw takes none. Every field may be null. infer: `tidemark preview`
    and `tidemark check` print a [schema to paste](formats-infer.md); nothing else takes it.
    registry: for avro and protobuf; an open takes the
    [newest schema](formats-avro.md#columns-from-the-registry) of a subject."""
    subject: Annotated[str, Field(min_length=1)] | None = None
    """The subject of `schema: registry`; by default that of the topic: <topic>-value, of keys
    <topic>-key."""
    registry: Annotated[str, Field(pattern=CONNECTION)] | None = None
    """Airflow connection of the schema registry, for the formats avro and protobuf."""
    descriptor: str | None = None
    """For the format protobuf without a registry: a file of descriptors beside the pipeline file,
    as `protoc --include_imports --descriptor_set_out` writes it. Values are bare, or
    framed."""
    message: Annotated[str, Field(pattern=MESSAGE)] | None = None
    """For the format protobuf: which message every value is, with its package: shop.Order. A
    descriptor needs it. With a registry a record of another message is then a dead letter."""
    framing: Framing | None = None
    """registry: the id of a schema stands in front of each value: the default of avro, and of
    protobuf with a registry; json, and protobuf by a descriptor, skip it. headers: in the header
    __value_schema_id (of keys __key_schema_id), or in front of a value without that header."""
    on_new_field: OnNewField = OnNewField.ignore
    """ignore: an undeclared field is ignored; refuse: its record becomes a dead letter; add, with
    `schema: registry`: the next open takes it as a column. See
    [new fields](evolution.md#new-fields)."""
    on_no_field: OnNoField = OnNoField.refuse
    """refuse: a record without any declared field becomes a
    [dead letter](dead-letters.md#records-of-another-kind); row: it is a row of nulls."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """What a decoder of your own is given."""
    _descriptors: bytes = PrivateAttr(b"")

    @model_validator(mode="after")
    def _supported(self, info: ValidationInfo) -> Self:
        given = self._given()
        for key in _NEEDS.get(self.format, ()):
            if not given[key]:
                raise ValueError(f"format {self.format} needs a {key}")
        if self.infers and self.is_own:
            raise ValueError("schema: infer is not for a decoder of your own: it knows its columns")
        for key, value in given.items():
            if value and key not in _TAKES.get(self.format, _OWN):
                raise ValueError(f"format {self.format} takes no {key}")
        if self.format == Format.protobuf:
            if (info.context or {}).get(CARRIED):
                raise ValueError("a DAG carries no format that may need a file")
            self._read_descriptors((info.context or {}).get(FOLDER, Path()))
        return self

    @model_validator(mode="after")
    def _from_a_registry(self) -> Self:
        if self.is_registered:
            refuse_registry(self.format)
            if not self.registry:
                raise ValueError(
                    "schema: registry needs a registry: name it, or declare the fields"
                )
        elif self.subject:
            raise ValueError("subject is for schema: registry; remove it, or set that")
        elif self.on_new_field is OnNewField.add:
            raise ValueError(
                "on_new_field: add takes new fields from a registry's newest schema: set schema:"
                " registry, or declare the new field"
            )
        return self

    def _given(self) -> dict[str, Any]:
        """What only some formats take."""
        return {
            "schema": self.fields,
            "subject": self.subject,
            "framing": self.framing,
            "registry": self.registry,
            "options": self.options,
            "on_new_field": self.on_new_field is OnNewField.refuse,
            "on_no_field": self.on_no_field is OnNoField.row,
            "descriptor": self.descriptor,
            "message": self.message,
        }

    def _read_descriptors(self, folder: Path) -> None:
        if bool(self.descriptor) == bool(self.registry):
            raise ValueError("format protobuf needs a registry, or a descriptor: one of the two")
        if self.descriptor:
            if not self.message:
                raise ValueError("a descriptor needs a message: name the one that every value is")
            try:
                self._descriptors = (folder / self.descriptor).read_bytes()
            except OSError as error:
                raise ValueError(f"descriptor can't be read: {error}") from error

    @property
    def descriptors(self) -> bytes:
        """What stood in the descriptor's file when it was read."""
        return self._descriptors

    @property
    def is_own(self) -> bool:
        """Whether the format is a decoder of the user's own."""
        return ":" in self.format

    @property
    def declared(self) -> dict[str, str]:
        """The declared fields."""
        return {} if isinstance(self.fields, SchemaSource) else self.fields

    @property
    def infers(self) -> bool:
        """Whether the fields are still to be found."""
        return self.fields is SchemaSource.infer

    @property
    def is_registered(self) -> bool:
        """Whether a registry says what the fields are."""
        return self.fields is SchemaSource.registry

    @field_validator("fields")
    @classmethod
    def _named(cls, fields: dict[str, str] | SchemaSource) -> dict[str, str] | SchemaSource:
        if not isinstance(fields, SchemaSource):
            check_names(fields)
        return fields
