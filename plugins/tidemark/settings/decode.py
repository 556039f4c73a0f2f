"""The section `decode` of a pipeline file: how records become columns."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from tidemark.settings.field_types import check_names, parse_type
from tidemark.settings.section import Strict, valid


def _declared(text: str) -> str:
    parse_type(text)
    return text


Declared = Annotated[str, AfterValidator(valid(_declared))]
"""A field's type, by a name of Spark SQL's DDL."""


class Format(StrEnum):
    """How a record's value becomes columns."""

    json = "json"
    raw = "raw"


class Metadata(StrEnum):
    """Record metadata that the transform may ask for; each costs time on every record."""

    key = "key"
    timestamp = "timestamp"
    headers = "headers"
    tombstone = "tombstone"


class DecodeSettings(Strict):
    """How records become columns."""

    model_config = ConfigDict(populate_by_name=True)

    format: Format = Format.json
    """json: an object a record; raw: the bytes as they are."""
    fields: Annotated[dict[str, Declared], Field(alias="schema")] = Field(default_factory=dict)
    """Field name: type, for the format json. Every field may be null."""
    metadata: tuple[Metadata, ...] = ()
    """Record metadata wanted as columns kafka_key, kafka_timestamp, kafka_headers,
    kafka_tombstone. With tombstone a record without a value is a row: true there, its fields null.
    Without it the format json makes such a record a dead letter."""

    @model_validator(mode="after")
    def _supported(self) -> Self:
        if self.format is Format.json and not self.fields:
            raise ValueError("format json needs a schema: a list of field: type")
        if self.format is Format.raw and self.fields:
            raise ValueError("format raw takes no schema: its only column is value")
        return self

    @field_validator("fields")
    @classmethod
    def _named(cls, fields: dict[str, str]) -> dict[str, str]:
        valid(check_names)(fields)
        return fields
