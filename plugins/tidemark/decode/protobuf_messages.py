"""Messages: how the values of one message of Protobuf become columns."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.decode.outcome import Reason, Refusal
from tidemark.decode.protobuf_parts import parts
from tidemark.decode.protobuf_reader import Read, Reader
from tidemark.decode.protobuf_weight import bounded

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message


_NO_MEMORY = "Arena alloc failed"


class Messages:
    """The values of one message, read as the declared columns."""

    def __init__(
        self, message: "type[Message]", schema: pa.Schema, *, refuses_new: bool = False
    ) -> None:
        """Find out how.

        Raises:
            Refusal: a field can't be read as declared; or one is not declared, if that matters.
        """
        from google.protobuf.message import DecodeError

        descriptor: Descriptor = message.DESCRIPTOR
        self._schema = schema
        self._errors = (DecodeError, ValueError)
        self._parse: Callable[[bytes], Message] = message.FromString
        reading = Reader(message.HasField, refuses_new=refuses_new)
        self._refuse_heavy = bounded(descriptor)
        self._check = reading.sound(descriptor, schema.names)
        self._is_whole = message.IsInitialized if _requires(descriptor) else None
        self._reads = [reading.field(descriptor, one.name, one.type) for one in schema]

    def parsed(self, body: bytes) -> "Message":
        """The message.

        Raises:
            Refusal: the bytes are none.
            MemoryError: there is too little for it here.
        """
        self._refuse_heavy(body)
        try:
            found = self._parse(body)
        except self._errors as error:
            if _NO_MEMORY in str(error):  # another worker may have more
                raise MemoryError(str(error)) from None
            raise Refusal(Reason.INVALID_PROTOBUF, str(error)) from None
        if self._is_whole and not self._is_whole(found):
            raise Refusal(Reason.INVALID_PROTOBUF, "a required field is missing")
        self._check(found)
        return found

    def rows(self, messages: "Sequence[Message]") -> tuple[pa.RecordBatch, dict[int, Refusal]]:
        """A row of each message, and why some are none: these are left out."""
        refused: dict[int, Refusal] = {}
        columns = [_column(read, messages, refused) for read in self._reads]
        if refused:
            columns = [
                [value for at, value in enumerate(column) if at not in refused]
                for column in columns
            ]
        arrays = [
            pa.array(column, one.type) for column, one in zip(columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), refused


def _column(
    read: Read, messages: "Sequence[Message]", refused: dict[int, Refusal]
) -> Sequence[Any]:
    """A field of all messages; of one that refuses it, the first refusal is kept."""
    try:
        return list(map(read, messages))
    except Refusal:
        return [_or_refused(read, message, at, refused) for at, message in enumerate(messages)]


def _or_refused(read: Read, message: "Message", at: int, refused: dict[int, Refusal]) -> Any:
    try:
        return read(message)
    except Refusal as refusal:
        return refused.setdefault(at, refusal) and None


def _requires(message: "Descriptor") -> bool:
    """Whether the message, or one within it, has fields that must be there."""
    return any(field.is_required for one in parts(message) for field in one.fields)
