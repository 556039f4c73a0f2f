"""ProtobufDecoder: messages of Protobuf into the declared columns.

Which message a value is stands in front of it: the id of its writer's schema, and a place in that.
Or every value is the one message that a file of descriptors names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from tidemark.decode.framing import SchemaId, message_path, unframed
from tidemark.decode.outcome import (
    MAX_VALUE_BYTES,
    Decoded,
    Reason,
    Refusal,
    Rejected,
    in_order,
    within,
)
from tidemark.decode.plans import Plans
from tidemark.decode.protobuf_messages import Messages
from tidemark.decode.protobuf_schema import message_of, message_of_set, path_of
from tidemark.decode.registry import Registry, flattened
from tidemark.errors import InvalidSettings

if TYPE_CHECKING:
    from google.protobuf.message import Message


Reading = Callable[["type[Message]"], Messages]
"""How a message is read as the declared columns."""


class Kinds(Protocol):
    """Which message a value is."""

    may_be_empty: bool
    """Whether a value without bytes is a message, which has no field."""

    def of(self, value: bytes) -> tuple[Messages, int]:
        """How it is read, and where its data begin; or a Refusal."""

    def forget_unknown(self) -> None:
        """What was not known may be known to the next block."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """A schema, and which of its messages."""

    schema_id: SchemaId
    path: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.schema_id}, message {'.'.join(map(str, self.path))}"


class Registered:
    """Messages by the ids in front of values, of a registry."""

    may_be_empty = False

    def __init__(self, registry: Registry, reading: Reading) -> None:
        self._registry = registry
        self._reading = reading
        self._plans = Plans(self._made)
        self.forget_unknown = self._plans.forget_unknown

    def of(self, value: bytes) -> tuple[Messages, int]:
        """By the id and the place in front of the value.

        Raises:
            Refusal: there is none, or no such message, or none that can be read as declared.
            Unreachable: the registry does not answer.
        """
        schema_id, at = unframed(value)
        path, at = message_path(value, at)
        return self._plans.of(MessageId(schema_id, path)), at

    def _made(self, one: MessageId) -> Messages:
        written = flattened(self._registry.serialized(one.schema_id))
        return self._reading(message_of(written, one.path))


class Described:
    """The one message that a file of descriptors names.

    It is the whole value; or what stands behind an id, which no registry is asked for.
    """

    def __init__(
        self, descriptors: bytes, name: str, reading: Reading, *, is_framed: bool = False
    ) -> None:
        """Find the message.

        Raises:
            InvalidSettings: it is not there, or can't be read as declared.
        """
        try:
            message = message_of_set(descriptors, name)
            self._messages = reading(message)
        except Refusal as refusal:
            raise InvalidSettings(
                f"decode.descriptor, message {name}: {refusal.detail}. Write the file with all"
                " that it imports: protoc --include_imports --descriptor_set_out"
            ) from refusal

        self.may_be_empty = not is_framed
        self._path = path_of(message.DESCRIPTOR) if is_framed else None

    def of(self, value: bytes) -> tuple[Messages, int]:
        """The same for every value.

        Raises:
            Refusal: no id is in front of it, or it is another message of its schema.
        """
        if self._path is None:
            return self._messages, 0
        path, at = message_path(value, unframed(value)[1])
        if path != self._path:
            raise Refusal(
                Reason.OTHER_SCHEMA,
                f"its message stands at {path} of its schema, the named one at {self._path}",
            )
        return self._messages, at

    def forget_unknown(self) -> None:
        """Nothing is unknown."""


class ProtobufDecoder:
    """Reads messages into the columns of `schema`.

    A field that the writer does not have is null, one that is not declared is passed over.
    """

    def __init__(
        self,
        schema: pa.Schema,
        kinds: Kinds,
        *,
        max_bytes: int = MAX_VALUE_BYTES,
        takes_null: bool = False,
    ) -> None:
        self.schema = schema
        self._kinds = kinds
        self._max_bytes = max_bytes
        self._takes_null = takes_null

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows of the good values, in order, and the others with their reasons.

        Raises:
            Unreachable: the registry does not answer.
        """
        found: dict[Messages, dict[int, Message]] = {}
        empty: list[int] = []
        rejected: list[Rejected] = []
        for index, value in enumerate(values):
            if value is None and self._takes_null:
                empty.append(index)
                continue
            try:
                kind, message = self._message(value)
            except Refusal as refusal:
                rejected.append(refusal.of(index))
            else:
                found.setdefault(kind, {})[index] = message
        self._kinds.forget_unknown()  # asked once a block
        return self._decoded(found, empty, rejected)

    def _message(self, value: bytes | None) -> "tuple[Messages, Message]":
        value = within(value, self._max_bytes, may_be_empty=self._kinds.may_be_empty)
        kind, at = self._kinds.of(value)
        return kind, kind.parsed(value[at:])

    def _decoded(
        self,
        found: "dict[Messages, dict[int, Message]]",
        empty: list[int],
        rejected: list[Rejected],
    ) -> Decoded:
        batches = [
            pa.RecordBatch.from_arrays(
                [pa.nulls(len(empty), one.type) for one in self.schema], schema=self.schema
            )
        ]
        kept = empty
        for kind, messages in found.items():
            indices = list(messages)
            batch, refused = kind.rows(list(messages.values()))
            batches.append(batch)
            kept += [index for at, index in enumerate(indices) if at not in refused]
            rejected += [refusal.of(indices[at]) for at, refusal in refused.items()]
        rejected.sort(key=lambda one: one.index)
        return Decoded(in_order(batches, kept), pa.array(sorted(kept), pa.int64()), rejected)
