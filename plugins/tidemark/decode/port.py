"""The port of decoding: what every format is, and what one is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from tidemark.decode.outcome import Decoded


class Decoder(Protocol):
    """Values of records become rows; a record's fate does not depend on its neighbours."""

    schema: pa.Schema
    """The columns of the rows; every one may be null."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode what can be decoded, name the rest; None is a record without a value."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What a decoder is made of; it travels pickled to the tasks, secrets and all."""

    format: str
    """One of Tidemark's, or module:Class."""
    declared: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The declared fields; none where a format takes none."""
    takes_null: bool = False
    """Whether a record without a value is a row of nulls; else it is rejected."""
    framing: str | None = None
    """registry: the id of a schema stands in front of each value; headers: in a header."""
    envelope: str | None = None
    """debezium: a value is a change event, and its row is wanted."""
    placeholder: str | None = None
    """What Debezium writes for a value that it does not know; none: its own, of an envelope."""
    refuses_new: bool = False
    """Whether a record with a field that is not declared is rejected; else that is passed over."""
    source: tuple[str, ...] = ()
    """What of the event's source is wanted as columns."""
    registry: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The configuration of the schema registry's client, for the formats that need one."""
    descriptors: bytes = field(default=b"", repr=False)
    """A serialized FileDescriptorSet of Protobuf, in the place of a registry."""
    message: str = ""
    """Which message every value is; with a registry it may be any, if none is named."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For a decoder of the user's own."""
    key: "Decoding | None" = None
    """How keys are decoded."""
