"""Framing: the id of the writer's schema in front of a value, as registry clients write it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

from tidemark.decode.outcome import Reason, Refusal

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
