"""Kinds of messages: which one a value is, and how that is read as the declared columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidemark.decode.errors import DescriptorUnfit
from tidemark.decode.framing import SchemaId, commonest, message_path, unframed
from tidemark.decode.outcome import Reason, Refusal
from tidemark.decode.plans import MOST_UNKNOWN, Plans
from tidemark.decode.protobuf_messages import Messages
from tidemark.decode.protobuf_schema import Schema, message_of_set, path_of
from tidemark.decode.registry import Registry
from tidemark.decode.written import flattened

if TYPE_CHECKING:
    from google.protobuf.message import Message

MOST_SCHEMAS = 100
"""That are kept parsed; a value may name any place in any of them."""

Reading = Callable[["type[Message]"], Messages]
"""How a message is read as the declared columns."""


class Kinds(Protocol):
    """Which message a value is."""

    may_be_empty: bool
    """Whether a value without bytes is a message, which has no field."""

    def look_for(self, values: Sequence[bytes | None]) -> None:
        """What most of a block's values are is known first."""

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

    def __init__(self, registry: Registry, reading: Reading, name: str = "") -> None:
        """`name`: of the one message that values may be; any, if it is not given."""
        self._registry = registry
        self._reading = reading
        self._name = name
        self._schemas = Plans(self._parsed, most=MOST_SCHEMAS)
        self._plans = Plans(self._made, most_unknown=None)  # these ask nobody by themselves

    def look_for(self, values: Sequence[bytes | None]) -> None:
        """The schemas that most of them name are asked for first."""
        self._schemas.look_for(commonest(values, MOST_UNKNOWN))

    def of(self, value: bytes) -> tuple[Messages, int]:
        """By the id and the place in front of the value.

        Raises:
            Refusal: there is none, or no such message, or not the one that is named, or none that
                can be read as declared.
            Unreachable: the registry does not answer.
        """
        schema_id, at = unframed(value)
        path, at = message_path(value, at)
        return self._plans.of(MessageId(schema_id, path)), at

    def forget_unknown(self) -> None:
        """A schema that was not known may be registered now."""
        self._schemas.forget_unknown()
        self._plans.forget_unknown()

    def _made(self, one: MessageId) -> Messages:
        message = self._schemas.unnamed(one.schema_id).message(one.path)
        if self._name and message.DESCRIPTOR.full_name != self._name:
            raise Refusal(
                Reason.OTHER_SCHEMA, f"it is {message.DESCRIPTOR.full_name}, not {self._name}"
            )
        return self._reading(message)

    def _parsed(self, schema_id: SchemaId) -> Schema:
        return Schema(flattened(self._registry.serialized(schema_id)))


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
            raise DescriptorUnfit(message=name, cause=refusal.detail) from refusal

        self.may_be_empty = not is_framed
        self._path = path_of(message.DESCRIPTOR) if is_framed else None

    def look_for(self, values: Sequence[bytes | None]) -> None:
        """Nobody is asked."""

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
