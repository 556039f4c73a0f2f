"""Avro's bytes, read strictly: nothing beyond the value's end, nothing that no writer writes.

Each function is given the value and a place in it, and returns what stands there and the place
after it. An IndexError or a struct.error says that the value ends too early. Libraries are more
lenient: fastavro takes negative indices of unions and enums, any byte for a boolean and numbers of
any length, and ends the process on deep recursion.
"""

from struct import Struct

from tidemark.decode.outcome import Reason, Refusal

_FLOAT, _DOUBLE = Struct("<f").unpack_from, Struct("<d").unpack_from
_INT = range(-(2**31), 2**31)


def invalid(fact: str) -> Refusal:
    """The refusal of bytes that are no datum of their schema."""
    return Refusal(Reason.INVALID_AVRO, fact)


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of 64 bits."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise invalid("a number has more than ten bytes")
    if number >> 64:
        raise invalid("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def int_at(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of 32 bits."""
    number, at = long_at(data, at)
    if number not in _INT:
        raise invalid("an int has more than 32 bits")
    return number, at


def boolean_at(data: bytes, at: int) -> tuple[bool, int]:
    """A byte, 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise invalid(f"a boolean is {byte}")
    return byte == 1, at + 1


def float_at(data: bytes, at: int) -> tuple[float, int]:
    """Four bytes."""
    return _FLOAT(data, at)[0], at + 4


def double_at(data: bytes, at: int) -> tuple[float, int]:
    """Eight bytes."""
    return _DOUBLE(data, at)[0], at + 8


def null_at(data: bytes, at: int) -> tuple[None, int]:
    """No byte."""
    return None, at


def bytes_at(data: bytes, at: int) -> tuple[bytes, int]:
    """A length and so many bytes."""
    size, at = long_at(data, at)
    return sized(data, at, size)


def sized(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """So many bytes."""
    end = at + size
    if size < 0 or end > len(data):
        raise invalid(f"a length is {size} where {len(data) - at} bytes are left")
    return data[at:end], end


def text_at(data: bytes, at: int) -> tuple[str, int]:
    """A length and so many bytes of UTF-8."""
    found, at = bytes_at(data, at)
    try:
        return found.decode(), at
    except UnicodeDecodeError as error:
        raise Refusal(Reason.INVALID_UTF8, "a string is not valid UTF-8") from error


def index_at(data: bytes, at: int, size: int) -> tuple[int, int]:
    """An index below `size`: of a union's branch, or of an enum's symbol."""
    index, at = long_at(data, at)
    if not 0 <= index < size:
        raise invalid(f"an index is {index}, and there are {size}")
    return index, at
