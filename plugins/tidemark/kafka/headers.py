"""A record's headers byte for byte: `Message.headers()` fails at a key that is not UTF-8.

It also cuts a key at a NUL. librdkafka holds every key whole, so they are read where it holds them:
to ask it for each costs five times as much. How it holds them is no part of its interface: once in
a process it is compared with what the interface gives, and not believed if that differs.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from operator import methodcaller
from typing import Any

from confluent_kafka import Message, cimpl

Headers = Sequence[tuple[str | bytes, bytes | None]]
"""Key and value; a key that is no UTF-8 stays bytes."""

HeadersOf = Callable[[Message], Headers | None]
"""All headers of a record; None if the client can't give them."""

_MESSAGE = struct.Struct("7N")
"""What a Message begins with: two words of every object, topic, value, key, headers once they were
asked for, and librdkafka's headers until then."""
_HELD = struct.Struct("2N")
"""The last two of them."""
_LIST = struct.Struct("@2iN")
"""What librdkafka's headers begin with: room, their number, and where their addresses stand."""
_HEADER = struct.Struct("4N")
"""A header: its bytes as sent, those of its value, of its key; the value. The key stands behind."""

_memory: Any = (ctypes.c_char * sys.maxsize).from_address(0)
"""All of the process's; to read what is not there ends it."""

_given = methodcaller("headers")
"""`Message.headers()`. Called by name, one that failed may go on and end the process later."""

_SAMPLES: Headers = (("a\0b", None), (b"\xff", b""), ("", b"\0"), ("k" * 99, b"v" * 999))


def headers_of(record: Message) -> Headers | None:
    """All headers of the record in order; None if this client can't give them. To be asked once.

    They are exact, unless this client holds them in an unknown way: then a NUL cuts a key.
    """
    asked, held = _HELD.unpack_from(_memory, id(record) + _MESSAGE.size - _HELD.size)
    if held and not asked and _is_known():
        return list(_held(held))
    try:
        return _given(record) or ()
    except SystemError:  # and never again: the next call would give a list with a hole
        return None


def _held(headers: int) -> Iterator[tuple[str | bytes, bytes | None]]:
    _, number, addresses = _LIST.unpack_from(_memory, headers)
    for at in struct.unpack_from(f"{number}N", _memory, addresses):
        _, length, size, value_at = _HEADER.unpack_from(_memory, at)
        key = _memory[at + _HEADER.size : at + _HEADER.size + size]
        yield _text(key), _memory[value_at : value_at + length] if value_at else None


def _text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


@cache
def _is_known() -> bool:
    """Whether this client and this librdkafka hold headers as it is said here."""
    record = Message(topic="topic", value=b"value", key=b"key", headers=[("key", b"value")])
    known = (record.topic(), record.value(), record.key(), record.headers())
    begins = (*map(id, known), 0)
    if _MESSAGE.unpack(ctypes.string_at(id(record), _MESSAGE.size))[2:] != begins:
        return False
    library = _librdkafka()
    headers = library.rd_kafka_headers_new(len(_SAMPLES))
    try:
        for key, value in _SAMPLES:
            name = key.encode() if isinstance(key, str) else key
            size = -1 if value is None else len(value)
            library.rd_kafka_header_add(headers, name, len(name), value, size)
        return _are_where_told(headers) and tuple(_held(headers)) == _SAMPLES
    finally:
        library.rd_kafka_headers_destroy(headers)


def _are_where_told(headers: int) -> bool:
    """Whether the addresses stand where they should; nothing is read that may not be there."""
    _, number, addresses = _LIST.unpack(ctypes.string_at(headers, _LIST.size))
    places = [ctypes.c_void_p() for _ in range(3)]
    get = _librdkafka().rd_kafka_header_get_all
    told: list[int] = []
    while not get(headers, len(told), *map(ctypes.byref, places)):
        told.append((places[0].value or 0) - _HEADER.size)
    expected = struct.pack(f"{len(told)}N", *told)
    return number == len(_SAMPLES) and _read_safely(addresses, len(expected)) == expected


def _read_safely(address: int, size: int) -> bytes:
    """The bytes at an address; fewer where there is nothing."""
    reading, writing = os.pipe()
    with closing(os.fdopen(reading, "rb")) as pipe:
        ctypes.CDLL(None).write(writing, ctypes.c_void_p(address), ctypes.c_size_t(size))
        os.close(writing)
        return pipe.read()


@cache
def _librdkafka() -> Any:
    library = ctypes.CDLL(cimpl.__file__)
    address, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    library.rd_kafka_headers_new.argtypes = [size]
    library.rd_kafka_headers_new.restype = address
    library.rd_kafka_header_add.argtypes = [address, text, ctypes.c_ssize_t, text, ctypes.c_ssize_t]
    library.rd_kafka_header_get_all.argtypes = [address, size, *[address] * 3]
    library.rd_kafka_headers_destroy.argtypes = [address]
    library.rd_kafka_headers_destroy.restype = None
    return library
