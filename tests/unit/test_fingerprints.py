"""Fingerprints lie in memory or in a file, and come back whole, part by part."""

import hashlib
from contextlib import closing

import pytest

from tidemark.verify import _fingerprints
from tidemark.verify._fingerprints import FOUND, PARTS, Fingerprints


def copied(identities: list[bytes]) -> bytes:
    """What COPY BINARY sends of rows whose values are hashed like their identity."""
    rows = (FOUND.pack(2, 16, one, 16, one[::-1]) for one in identities)
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"".join(rows) + b"\xff\xff"


def identities(first: int, last: int) -> list[bytes]:
    return [
        hashlib.md5(str(n).encode(), usedforsecurity=False).digest() for n in range(first, last)
    ]


@pytest.mark.parametrize("piece", [1, 50, 1 << 20])
@pytest.mark.parametrize("buffered", [1, 1 << 20])
def test_what_was_written_comes_back_by_parts(
    monkeypatch: pytest.MonkeyPatch, piece: int, buffered: int
) -> None:
    """Whatever pieces a COPY comes in, and however often the buffers are flushed."""
    monkeypatch.setattr(_fingerprints, "_BUFFERED", buffered)
    monkeypatch.setattr(_fingerprints, "_PIECE", 1000)
    with closing(Fingerprints(FOUND)) as side:
        for first in (0, 300):
            data = copied(identities(first, first + 300))
            for start in range(0, len(data), piece):
                side.write(data[start : start + piece])
            side.end()
        parts = [[*side.part(number)] for number in range(PARTS)]
    assert side.rows == 600
    found = [one for part in parts for one in part]
    assert sorted(found) == sorted((one, one[::-1]) for one in identities(0, 600))
    for number, part in enumerate(parts):
        assert {int.from_bytes(one[:2]) >> 6 for one, _ in part} <= {number}
