"""The weight of a message: what its parts take in memory, told by its bytes before it is parsed.

The library makes room for every field of a message, though it has two bytes: of a type of a hundred
fields that is eight hundred bytes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemark.decode.outcome import Reason, Refusal
from tidemark.decode.protobuf_parts import parts

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

MOST = 4_000_000
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


def bounded(message: "Descriptor", most: int = MOST) -> Callable[[bytes], None]:
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
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                _, at = _varint(data, at)
            elif wire in (_SIZED, _BEGIN):
                size, at = _varint(data, at) if wire == _SIZED else (end - at, at)
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


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return number, at + 1
        at += 1
    raise IndexError(at)
