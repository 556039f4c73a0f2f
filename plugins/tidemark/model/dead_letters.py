"""Dead letters: how many of a batch's records may become one, and how much of each is kept.

What is larger keeps its beginning, its size and its hash.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from hashlib import sha256
from itertools import chain

from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import TopicPartition

JUDGED_FROM = 100
"""Records; a ratio judges more than these. A smaller batch is judged with those before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run: the part of a batch's records, and their number; None is no limit."""

    max_ratio: float = 0.5
    max_count: int | None = None


@dataclass(frozen=True, slots=True)
class CommonReason:
    """Why records of a batch became dead letters, how many, and the first of them."""

    text: str
    count: int
    example: str
    """As topic[partition]@offset."""

    def __str__(self) -> str:
        return f"{self.count} {self.text}, the first {self.example}"


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters are meant; what is not given is all of them."""

    reasons: tuple[str, ...] = ()
    since: datetime | None = None
    """Published then or later. A record's own time is foreign data, and may be missing."""
    until: datetime | None = None
    """Published before."""
    partition: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the dead letters that a replay has chosen."""

    seq: int
    replayed: int
    kept: int
    """They failed again, and stay with their new reason."""
    rows: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What the claimed spans of a batch counted, beside the limits of its run."""

    records: int
    dead_letters: int
    records_before: int
    """Of the checkpoints before it, so many that more than JUDGED_FROM records are judged."""
    dead_letters_before: int
    limits: Limits

    @property
    def most(self) -> int | None:
        """Dead letters that the batch may have.

        Judge a small batch together with earlier ones: a few bad records stop nothing, small
        batches of bad records alone do. If the batch is within its own share, earlier ones do not
        matter.
        """
        counts = [] if self.limits.max_count is None else [self.limits.max_count]
        if self.records + self.records_before > JUDGED_FROM:
            together = self._part(self.records + self.records_before) - self.dead_letters_before
            counts.append(max(self._part(self.records), together))
        return min(counts, default=None)

    @property
    def room(self) -> int | None:
        """Dead letters that the batch may have besides; below 0 if it has too many."""
        return None if self.most is None else self.most - self.dead_letters

    def allows(self, more: int) -> bool:
        """Whether so many dead letters besides are within the limits."""
        return self.room is None or more <= self.room

    def _part(self, records: int) -> int:
        return int(records * Fraction(str(self.limits.max_ratio)))


MOST_A_BATCH = 256 << 20
"""Bytes of all dead letters of a batch, and of all its refused rows, unless they are kept whole."""

Headers = Iterable[tuple[str, bytes | None]]


class Room:
    """What is left for the dead letters of a read; each span of the batch has its share."""

    def __init__(self, max_bytes: int | None, spans: int) -> None:
        """At most `max_bytes` of each letter; None keeps all whole."""
        self._max_bytes = max_bytes
        self._share = MOST_A_BATCH // max(1, spans)
        self._taken: Counter[tuple[str, int]] = Counter()

    def kept(self, dead_letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """The same, each as far as there is room for it."""
        most = self._max_bytes
        return [*dead_letters] if most is None else [self._kept(one, most) for one in dead_letters]

    def _kept(self, dead_letter: DeadLetter, most: int) -> DeadLetter:
        span = dead_letter.topic, dead_letter.partition
        found = beginning(dead_letter, max(0, min(most, self._share - self._taken[span])))
        self._taken[span] += size_of(found)
        return found


def beginning(dead_letter: DeadLetter, room: int) -> DeadLetter:
    """The letter if it has room; else what begins it: of the key, then headers, then the value."""
    size = size_of(dead_letter)
    if size <= room:
        return dead_letter
    key = dead_letter.key and dead_letter.key[:room]
    room -= len(key or b"")
    headers = dead_letter.headers and tuple(_fitting(dead_letter.headers, room))
    room -= _headers_size(headers or ())
    value = dead_letter.value and dead_letter.value[:room]
    return replace(dead_letter, key=key, value=value, headers=headers, whole_bytes=size)


def size_of(dead_letter: DeadLetter) -> int:
    """Bytes of its key, value and headers, as they are kept."""
    return (
        len(dead_letter.key or b"")
        + len(dead_letter.value or b"")
        + _headers_size(dead_letter.headers or ())
    )


def record_hash(key: bytes | None, value: bytes | None, headers: Headers | None) -> bytes:
    """SHA-256 of the record's parts: key, value, then each header's key and value.

    Before each part stands its length as a decimal number and a colon; for none a minus.
    """
    digest = sha256()
    for part in (key, value, *chain.from_iterable(headers or ())):
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"-" if data is None else b"%d:" % len(data))
        digest.update(data or b"")
    return digest.digest()


def _fitting(headers: Headers, room: int) -> Iterator[tuple[str, bytes | None]]:
    """The first headers that have room, each whole."""
    for one in headers:
        room -= _headers_size([one])
        if room < 0:
            return
        yield one


def _headers_size(headers: Headers) -> int:
    return sum(len(key.encode()) + len(value or b"") for key, value in headers)
