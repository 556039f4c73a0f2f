"""Framing: the id of the writer's schema in front of a value, as registry clients write it.

Newer serializers write the id into a header: it is put in front, and values are as ever. A record
whose headers name two schemas is refused: clients differ in which of them they take.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from uuid import UUID

import pyarrow as pa

from tidemark.decode.port import Decoded, Decoder, Reason, Refusal, Rejected

SchemaId = int | str
"""A number, or a GUID as text."""

MOST_WITHIN = 64
"""Messages within messages, as a value may name one."""

_NUMBER, _GUID = 0, 1
_SIZES = {_NUMBER: 5, _GUID: 17}


def unframed(value: bytes) -> tuple[SchemaId, int]:
    """The id of a value's schema, and where its data begin.

    Raises:
        Refusal: no id stands in front of the value.
    """
    size = _SIZES.get(value[0]) if value else None
    if size is None or len(value) < size:
        raise Refusal(
            Reason.NOT_FRAMED,
            "no schema id stands in front of the value (a zero byte and four bytes more, or a one"
            " and sixteen); ids in headers are read with decode.framing: headers",
        )
    if value[0] == _NUMBER:
        return int.from_bytes(value[1:size]), size
    return str(UUID(bytes=value[1:size])), size


def commonest(values: Sequence[bytes | None], most: int) -> Iterator[SchemaId]:
    """The ids in front of the values, at most so many, those that most values have first."""
    named = Counter(value[: _SIZES.get(value[0], 0)] for value in values if value)
    for prefix, _ in named.most_common(most):
        with suppress(Refusal):
            yield unframed(prefix)[0]


def message_path(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Which message of a Protobuf schema follows, and where its data begin.

    Its place among the file's messages, then among those within it, behind their number; the
    first message of all is one zero byte. A place that can't be is left to the schema to refuse.

    Raises:
        Refusal: no such place stands there.
    """
    try:
        size, at = _zigzag(value, at)
        if not 0 <= size <= MOST_WITHIN:
            raise _without_path()
        path = []
        for _ in range(size):
            index, at = _zigzag(value, at)
            path.append(index)
    except IndexError:
        raise _without_path() from None
    return tuple(path) or (0,), at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of Protobuf's wire, and where the next one begins.

    Raises:
        IndexError: the number does not end, or has more bytes than one can have.
    """
    number = 0
    for shift in range(0, 70, 7):
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return number, at + 1
        at += 1
    raise IndexError(at)


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise _without_path()


def _without_path() -> Refusal:
    return Refusal(Reason.NOT_FRAMED, "no place of a message stands behind the schema id")


VALUE, KEY = "__value_schema_id", "__key_schema_id"


class HeaderIds:
    """The ids in one header."""

    def __init__(self, name: str, *, has_path: bool) -> None:
        """`has_path`: the place of a message follows the id, as Protobuf needs it."""
        self._name = name
        self._has_path = has_path

    def framed(
        self, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> bytes | Refusal | None:
        """The value behind its id; as it is, if no header names one."""
        ids = {given for key, given in headers if key == self._name and given is not None}
        if not ids or value is None:
            return value
        if len(ids) > 1:
            return Refusal(Reason.NOT_FRAMED, f"headers {self._name} name several schemas")
        [found] = ids
        if not self._is_id(found):
            return Refusal(Reason.NOT_FRAMED, f"header {self._name} holds no schema id")
        return found + value

    def _is_id(self, found: bytes) -> bool:
        """Whether it is an id and nothing more: the rest would be taken for data."""
        try:
            _, end = unframed(found)
            if self._has_path:
                _, end = message_path(found, end)
        except Refusal:
            return False
        return end == len(found)


def decoded(decoder: Decoder, values: Sequence[bytes | Refusal | None]) -> Decoded:
    """What the decoder makes of the values that are none yet refused, and the refusals."""
    rejected = [one.of(index) for index, one in enumerate(values) if isinstance(one, Refusal)]
    if not rejected:
        return decoder.decode(values)  # type: ignore[arg-type]
    given = [index for index, one in enumerate(values) if not isinstance(one, Refusal)]
    found = decoder.decode([values[index] for index in given])  # type: ignore[misc]
    kept = pa.array(given, pa.int64()).take(found.kept)
    rejected += [Rejected(given[one.index], one.reason, one.detail) for one in found.rejected]
    rejected.sort(key=lambda one: one.index)
    return Decoded(found.rows, kept, rejected)


Part = Callable[[bytes | None], bytes | Refusal | None]
"""From a value to what is decoded of it, or why it is refused."""


class PartDecoder:
    """Gives another decoder what a function takes of each value."""

    def __init__(self, inner: Decoder, part: Part, mark: bytes = b"") -> None:
        """`mark`: the function leaves each value as it is in which this does not stand."""
        self.schema = inner.schema
        self._inner = inner
        self._part = part
        self._mark = mark

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the other makes of the parts; and the values of which nothing can be taken."""
        if self._mark and self._mark not in b"\n".join(filter(None, values)):
            return self._inner.decode(values)
        return decoded(self._inner, list(map(self._part, values)))


def behind_id(value: bytes | None) -> bytes | Refusal | None:
    """What stands behind the id; the registry is not asked. Without an id: NOT_FRAMED."""
    try:
        return value and value[unframed(value)[1] :]
    except Refusal as refusal:
        return refusal
