"""How much of dead letters is kept: what is larger keeps its beginning, its size and its hash."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import chain

from tidemark.model.batch import DeadLetter

MOST_A_BATCH = 256 << 20
"""Bytes of all dead letters of a batch, and of all its refused rows, unless they are kept whole."""

Headers = Iterable[tuple[str | bytes, bytes | None]]


class Room:
    """What is left for the dead letters of a read; each span of the batch has its share."""

    def __init__(self, max_bytes: int | None, spans: int) -> None:
        """At most `max_bytes` of each letter; None keeps all whole."""
        self._max_bytes = max_bytes
        self._share = MOST_A_BATCH // max(1, spans)
        self._taken: Counter[tuple[str, int]] = Counter()

    def kept(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """The same, each as far as there is room for it."""
        most = self._max_bytes
        return [*letters] if most is None else [self._kept(one, most) for one in letters]

    def _kept(self, letter: DeadLetter, most: int) -> DeadLetter:
        span = letter.topic, letter.partition
        found = beginning(letter, max(0, min(most, self._share - self._taken[span])))
        self._taken[span] += size_of(found)
        return found


def beginning(letter: DeadLetter, room: int) -> DeadLetter:
    """The letter if it has room; else what begins it: of the key, then headers, then the value."""
    size = size_of(letter)
    if size <= room:
        return letter
    key = letter.key and letter.key[:room]
    room -= len(key or b"")
    headers = letter.headers and tuple(_fitting(letter.headers, room))
    room -= _headers_size(headers or ())
    value = letter.value and letter.value[:room]
    return replace(letter, key=key, value=value, headers=headers, whole_bytes=size)


def size_of(letter: DeadLetter) -> int:
    """Bytes of its key, value and headers, as they are kept."""
    return len(letter.key or b"") + len(letter.value or b"") + _headers_size(letter.headers or ())


def record_hash(key: bytes | None, value: bytes | None, headers: Headers | None) -> bytes:
    """SHA-256 of the record's parts: key, value, then each header's key and value.

    Before each part stands its length as a decimal number and a colon; for none a minus.
    """
    digest = sha256()
    for part in (key, value, *chain.from_iterable(headers or ())):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"-" if data is None else b"%d:" % len(data))
        digest.update(data or b"")
    return digest.digest()


def _fitting(headers: Headers, room: int) -> Iterator[tuple[str | bytes, bytes | None]]:
    """The first headers that have room, each whole."""
    for one in headers:
        room -= _headers_size([one])
        if room < 0:
            return
        yield one


def _headers_size(headers: Headers) -> int:
    return sum(len(key) + len(value or b"") for key, value in headers)
