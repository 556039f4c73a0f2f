"""ProtobufDecoder: messages of Protobuf into the declared columns.

What becomes of a value is what reading it by itself makes of it. Many of one type are read
together, column by column, where that is the same.

Which message a value is stands in front of it: the id of its writer's schema, and a place in that.
Or every value is the one message that a file of descriptors names.

A message is weighed by its bytes before it is parsed. The library makes room for every field of a
message, though it has two bytes: of a type of a hundred fields that is eight hundred bytes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, groupby
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tidemark.decode._connect import deletion
from tidemark.decode._plans import MOST_UNKNOWN, Plans
from tidemark.decode._protobuf_columns import columns as fast_way
from tidemark.decode._protobuf_reader import FieldReader, Read
from tidemark.decode._protobuf_schema import MessageSchema, message_of_set, parts, path_of
from tidemark.decode.errors import DescriptorUnfit
from tidemark.decode.framing import SchemaId, commonest, message_path, unframed, varint
from tidemark.decode.port import (
    MAX_VALUE_BYTES,
    Decoded,
    Reason,
    Refusal,
    Rejected,
    in_order,
    within,
)
from tidemark.decode.registry import Registry, flattened
from tidemark.settings.decode import DELETED_FIELD

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message


MOST_FIELDS = 4_000_000
"""Fields of all messages within a value."""
MAX_DEPTH = 100
"""The library's own: it refuses what is deeper."""

_VARINT, _EIGHT, _SIZED, _BEGIN, _END, _FOUR = range(6)
_WIDTHS = {_EIGHT: 8, _FOUR: 4}

_Inner = dict[int, "_Kind"]


class _Kind:
    """A message: how many fields it has, and which of them are messages, by their numbers."""

    def __init__(self, fields: int) -> None:
        self.weight = fields + 1
        self.inner: _Inner = {}


def bounded(message: "Descriptor", most: int = MOST_FIELDS) -> Callable[[bytes], None]:
    """Refuses bytes of this message whose parts have too many fields; others it lets pass."""
    kinds = {one.full_name: _Kind(len(one.fields)) for one in parts(message)}
    for one in parts(message):
        kinds[one.full_name].inner.update(
            (field.number, kinds[field.message_type.full_name])
            for field in one.fields
            if field.message_type
        )
    heaviest = max(kind.weight for kind in kinds.values())

    def check(data: bytes) -> None:
        # an empty message is a zero byte, any other has two bytes behind its two
        if (data.count(0) + len(data) // 4) * heaviest <= most:
            return
        if _weight(data, kinds[message.full_name], most) > most:
            raise Refusal(Reason.TOO_LARGE, f"the messages within have more than {most} fields")

    return check


def _weight(data: bytes, kind: _Kind, most: int) -> int:
    """Counted until it is too much; of what is no message, as far as it is one."""
    found, at, end = 0, 0, len(data)
    outer: list[tuple[_Kind | None, int]] = []
    inside: _Kind | None = kind
    try:
        while found <= most and (at < end or outer) and len(outer) <= MAX_DEPTH:
            if at >= end:
                inside, end = outer.pop()
                continue
            tag, at = varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                _, at = varint(data, at)
            elif wire in (_SIZED, _BEGIN):
                size, at = varint(data, at) if wire == _SIZED else (end - at, at)
                inner = inside.inner.get(number) if inside else None
                found += inner.weight if inner else 0
                if inner or wire == _BEGIN:
                    outer.append((inside, end))
                    inside, end = inner, min(at + size, end)
                else:
                    at += size
            elif wire == _END:
                inside, end = outer.pop()
            else:
                at += _WIDTHS[wire]
    except (IndexError, KeyError):
        pass  # the library tells what is wrong
    return found


_NO_MEMORY = "Arena alloc failed"  # nothing else tells it from bytes that are no message


FEW = 200
"""Fewer messages of a kind are read one by one: that is as fast then."""
PIECE_BYTES = 4 << 20
"""About so many bytes of values are read together: that takes some ten times their memory."""
PARSED_BYTES = 256 << 10
"""About so many bytes of values are messages at a time: that takes a hundred times more."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of values, the indices of these, and why others are none."""

    batch: pa.RecordBatch
    kept: list[int]
    refused: dict[int, Refusal]


class Messages:
    """The values of one message, read as the declared columns."""

    def __init__(
        self,
        message: "type[Message]",
        schema: pa.Schema,
        *,
        refuses_new: bool = False,
        rows: Collection[str] = (),
        refuses_deletion: bool = False,
    ) -> None:
        """Find out how; `rows`: at these places a message must have one of the declared fields.

        `refuses_deletion`: a value that says that its row was deleted is refused, if that is not
        declared.

        Raises:
            Refusal: a field can't be read as declared; or one is not declared, if that matters.
        """
        from google.protobuf.message import DecodeError

        descriptor: Descriptor = message.DESCRIPTOR
        self._schema = schema
        self._errors = (DecodeError, ValueError)
        self._parse: Callable[[bytes], Message] = message.FromString
        reading = FieldReader(message.HasField, refuses_new=refuses_new, rows=rows)
        self._refuse_heavy = bounded(descriptor)
        self._check = reading.sound(descriptor, schema.names, "$")
        is_untold = refuses_deletion and DELETED_FIELD not in schema.names
        self._tells_deletion = is_untold and DELETED_FIELD in descriptor.fields_by_name
        is_required = any(field.is_required for one in parts(descriptor) for field in one.fields)
        self._is_whole = message.IsInitialized if is_required else None
        self._reads = [reading.field(descriptor, one.name, one.type) for one in schema]
        is_simple = not self._tells_deletion and self._is_whole is None
        self._columns = fast_way(descriptor, schema) if is_simple else None

    def rows(self, bodies: dict[int, bytes]) -> "Iterator[Rows]":
        """The rows of these values, in pieces: many at once, and one by one where it takes that."""
        if self._columns and len(bodies) >= FEW:
            batch, good = self._columns.rows([*bodies.values()])
            yield Rows(batch, [*compress(bodies, good)], {})
            bodies = dict(compress(bodies.items(), ~good))
        ends = accumulate(map(len, bodies.values()))
        for _, piece in groupby(bodies.items(), lambda _: next(ends) // PARSED_BYTES):
            yield self._one_by_one(dict(piece))

    def _one_by_one(self, bodies: dict[int, bytes]) -> "Rows":
        refused: dict[int, Refusal] = {}
        messages: dict[int, Message] = {}
        for index, body in bodies.items():
            try:
                messages[index] = self.parsed(body)
            except Refusal as refusal:
                refused[index] = refusal
        indices = [*messages]
        batch, unfit = self._rows([*messages.values()])
        refused |= {indices[at]: refusal for at, refusal in unfit.items()}
        return Rows(batch, [index for index in indices if index not in refused], refused)

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
        if self._tells_deletion and getattr(found, DELETED_FIELD) in (True, "true"):
            raise deletion()
        return found

    def _rows(self, messages: "Sequence[Message]") -> tuple[pa.RecordBatch, dict[int, Refusal]]:
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
        self._last: tuple[bytes, Messages] | None = None

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
        if self._last and value.startswith(self._last[0]):  # most have what the one before has
            return self._last[1], len(self._last[0])
        schema_id, at = unframed(value)
        path, at = message_path(value, at)
        found = self._plans.of(MessageId(schema_id, path))
        self._last = value[:at], found
        return found, at

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

    def _parsed(self, schema_id: SchemaId) -> MessageSchema:
        return MessageSchema(flattened(self._registry.serialized(schema_id)))


class DescribedMessage:
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
        self._kinds.look_for(values)
        found: dict[Messages, dict[int, bytes]] = {}
        empty: list[int] = []
        rejected: list[Rejected] = []
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        size = 0
        for index, value in enumerate(values):
            size += len(value or b"")
            if size > PIECE_BYTES:
                self._read(found, batches, kept, rejected)
                found, size = {}, len(value or b"")
            if value is None and self._takes_null:
                empty.append(index)
                continue
            try:
                kind, body = self._body(value)
            except Refusal as refusal:
                rejected.append(refusal.of(index))
            else:
                found.setdefault(kind, {})[index] = body
        self._kinds.forget_unknown()  # asked once a block
        self._read(found, batches, kept, rejected)
        nulls = [pa.nulls(len(empty), one.type) for one in self.schema]
        batches.append(pa.RecordBatch.from_arrays(nulls, schema=self.schema))
        kept += empty
        rejected.sort(key=lambda one: one.index)
        return Decoded(in_order(batches, kept), pa.array(sorted(kept), pa.int64()), rejected)

    def _body(self, value: bytes | None) -> tuple[Messages, bytes]:
        value = within(value, self._max_bytes, may_be_empty=self._kinds.may_be_empty)
        kind, at = self._kinds.of(value)
        return kind, value[at:]

    def _read(
        self,
        found: dict[Messages, dict[int, bytes]],
        batches: list[pa.RecordBatch],
        kept: list[int],
        rejected: list[Rejected],
    ) -> None:
        """Rows of these messages, and their indices; or why they are none."""
        for kind, bodies in found.items():
            for rows in kind.rows(bodies):
                batches.append(rows.batch)
                kept += rows.kept
                rejected += [refusal.of(index) for index, refusal in rows.refused.items()]
