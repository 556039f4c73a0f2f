"""A record's headers byte for byte: `Message.headers()` fails at a key that is not UTF-8.

It also cuts a key at a NUL. librdkafka holds every key whole, so it is asked for them. Where a
length stands is no part of its interface: what is found must agree with all that is known, else it
is not believed.
"""

import ctypes
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from confluent_kafka import Message, cimpl

Headers = tuple[tuple[bytes, bytes | None], ...]

_MESSAGE = struct.Struct("7N")
"""What a Message begins with: two words of every object, topic, value, key, headers once they were
asked for, and librdkafka's headers until then."""
_HEADER = struct.Struct("4N")
"""What stands before a key: bytes of the header as sent, of its value, of its key; the value."""


def headers_of(record: Message) -> Headers | None:
    """All headers of the record in order; None if this client does not give them exactly."""
    *_, topic, value, key, taken, headers = _MESSAGE.unpack(_at(id(record), _MESSAGE.size))
    known = ((topic, record.topic()), (value, record.value()), (key, record.key()))
    if taken or not all(word == id(one) or (one is None and not word) for word, one in known):
        return None
    try:
        return tuple(_each(headers)) if headers else ()
    except ValueError:
        return None


def _each(headers: int) -> Iterator[tuple[bytes, bytes | None]]:
    key, value, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    places = (ctypes.byref(key), ctypes.byref(value), ctypes.byref(size))
    get, number = _get(), 0
    while not get(headers, number, *places):
        number += 1
        found = None if value.value is None else _at(value.value, size.value)
        yield _key(key.value or 0, value.value or 0, found), found


def _key(at: int, value_at: int, value: bytes | None) -> bytes:
    """The whole key.

    Raises:
        ValueError: what stands before it contradicts what else is known.
    """
    wire, value_size, size, pointer = _HEADER.unpack(_at(at - _HEADER.size, _HEADER.size))
    length = len(value or b"")
    expected = _varint(size) + size + (1 if value is None else _varint(length) + length)
    is_known = (wire, value_size, pointer) == (expected, length, value_at)
    if not is_known or value_at not in (0, at + size + 1):
        raise ValueError("librdkafka holds headers in another way")
    return _at(at, size)


def _varint(number: int) -> int:
    """The bytes that Kafka writes a length in (zigzag)."""
    return max(1, -(-(2 * number).bit_length() // 7))


_at = ctypes.string_at
"""The bytes at an address."""


@cache
def _get() -> Any:
    get = ctypes.CDLL(cimpl.__file__).rd_kafka_header_get_all
    get.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_void_p] * 3]
    return get
