"""The section `decode` of a pipeline file: how records become columns."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from tidemark.model.facts import is_pattern
from tidemark.settings.errors import ColumnAddedTwice
from tidemark.settings.field_types import check_names
from tidemark.settings.format import Format, FormatSettings, OnNewField

KEY_PREFIX = "key_"
SOURCE_PREFIX = "source_"
DELETED_FIELD = "__deleted"
"""Of a flattened event of Debezium: whether the row was deleted, as a boolean or as its text."""


def _placeholder(text: str) -> str:
    rest = text.removeprefix("hex:")
    if not rest or (rest != text and not _of_hex(rest)):
        raise ValueError("the placeholder is empty")
    return text


def _of_hex(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ValueError(f"{digits!r} is no hex: two digits for each byte") from None


class Envelope(StrEnum):
    """What a value says of its row."""

    debezium = "debezium"
    connect = "connect"


class KeyEnvelope(StrEnum):
    """What a key stands in."""

    connect = "connect"


class Source(StrEnum):
    """Where a change event comes from: what Debezium says of its source."""

    lsn = "lsn"
    file = "file"
    pos = "pos"
    row = "row"
    scn = "scn"
    commit_lsn = "commit_lsn"
    change_lsn = "change_lsn"
    ts_ms = "ts_ms"
    table = "table"


def refuse_other_than_json(envelope: str | None, format_name: str) -> None:
    """Refuse the envelope of a converter where another one wrote.

    Raises:
        ValueError: the envelope is Connect's, and the format not json.
    """
    if envelope == Envelope.connect and format_name != Format.json:
        raise ValueError(
            "envelope: connect is what Kafka Connect's JsonConverter writes: set format: json, or"
            " remove this key"
        )


class Metadata(StrEnum):
    """Record metadata that the transform may ask for; each costs time on every record."""

    key = "key"
    timestamp = "timestamp"
    headers = "headers"
    tombstone = "tombstone"


class KeySettings(FormatSettings):
    """How keys of records become columns too, each named as its field behind key_."""

    envelope: KeyEnvelope | None = None
    """connect: a key may be the payload beside a schema, as Kafka Connect's JsonConverter writes
    it with `schemas.enable`."""

    def _given(self) -> dict[str, Any]:
        return super()._given() | {"envelope": self.envelope}

    @model_validator(mode="after")
    def _of_json(self) -> Self:
        refuse_other_than_json(self.envelope, self.format)
        return self


class DecodeSettings(FormatSettings):
    """How records become columns."""

    envelope: Envelope | None = None
    """debezium: a value is a [change event](formats-debezium.md); the schema is that of its row,
    and a column deleted is added. connect: a value may be the payload beside a schema, as
    [Kafka Connect's JsonConverter](formats-debezium.md#flattened-events) writes it."""
    placeholder: Annotated[str, AfterValidator(_placeholder)] | None = None
    """Debezium's `unavailable.value.placeholder`, if its connector has another than the default. A
    row with it is a [dead letter](formats-debezium.md#values-that-the-source-did-not-send). Without
    an envelope no value is a placeholder, unless you name it here."""
    source: tuple[Source, ...] = ()
    """With the envelope debezium: fields of the event's source that become columns source_lsn and
    so on."""
    metadata: tuple[Metadata, ...] = ()
    """Record metadata that becomes columns kafka_key, kafka_timestamp, kafka_headers,
    kafka_tombstone. With tombstone a record without a value is a row: true there, its fields null.
    Without it the format json makes such a record a dead letter."""

    key: KeySettings | None = None
    """How keys become columns too; none: they do not."""

    @property
    def parts(self) -> list[FormatSettings]:
        """The formats of value and key."""
        return [self, self.key] if self.key else [self]

    @property
    def infers_any(self) -> bool:
        """Whether fields of the value or of the key are still to be found."""
        return any(one.infers for one in self.parts)

    @property
    def is_event(self) -> bool:
        """Whether a value is a change event, and its row stands within."""
        return self.envelope is Envelope.debezium

    @property
    def registries(self) -> set[str]:
        """The connections of schema registries."""
        return {one.registry for one in self.parts if one.registry}

    @property
    def has_tombstones(self) -> bool:
        """Whether a record without a value is a row, or may be one."""
        is_raw = self.format == Format.raw
        return is_raw or self.has_own or Metadata.tombstone in self.metadata

    @property
    def has_own(self) -> bool:
        """Whether a decoder of the user's own is among them."""
        return any(one.is_own for one in self.parts)

    def _given(self) -> dict[str, Any]:
        return super()._given() | {"envelope": self.envelope, "placeholder": self.placeholder}

    @model_validator(mode="after")
    def _one_column_each(self) -> Self:
        refuse_other_than_json(self.envelope, self.format)
        if self.source and not self.is_event:
            raise ValueError(
                "source is what an envelope says: set envelope: debezium, or remove this key"
            )
        if self.is_event and self.on_new_field is OnNewField.refuse:
            raise ValueError(
                "on_new_field: refuse is not for an envelope: events have other fields than rows"
            )
        refuse_twice(self)
        return self


def refuse_twice(decode: DecodeSettings) -> None:
    """Refuse a column that two of value, key, envelope and source would make.

    Raises:
        InvalidSettings: names it.
    """
    added = [f"{KEY_PREFIX}{name}" for name in (decode.key.declared if decode.key else ())]
    added += [f"{SOURCE_PREFIX}{name}" for name in decode.source]
    if decode.is_event:
        added.append("deleted")
    if twice := sorted({*map(str.lower, decode.declared)} & {*map(str.lower, added)}):
        raise ColumnAddedTwice(columns=tuple(twice))
    check_names(added)


def refuse_unnamed(decode: DecodeSettings, topics: Sequence[str]) -> None:
    """Refuse `schema: registry` without a subject where no topic's name says which one it is.

    Raises:
        ValueError: there are several topics, or a pattern.
    """
    is_one = len(topics) == 1 and not is_pattern(topics[0])
    if not is_one and any(one.is_registered and not one.subject for one in decode.parts):
        raise ValueError(
            "schema: registry takes the columns from one subject, and several topics have several:"
            " name it by subject"
        )
