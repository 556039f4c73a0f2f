"""Fingerprints of rows: what is compared of a table of any size in memory of one size.

A row is told by its identity and by its values, both hashed by Postgres. They come as COPY BINARY,
in tuples of one width, and lie in a temporary file by the first bits of the identity, so that one
part after the other is compared. The file has no name: it goes with the process.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from tempfile import SpooledTemporaryFile
from typing import IO, Any

FOUND = Struct(">hi16si16s")
"""A row of the table: identity and values."""
EXPECTED = Struct(">hi16si16siiiqii")
"""A row of a record: these, then the number of its partition, its offset, whether it deletes."""

PARTS = 1024
_HEADER_BYTES = 19
_IN_MEMORY = 64 << 20
_BUFFERED = 16 << 20
_PIECE = 1 << 16


@dataclass(slots=True)
class Fingerprints:
    """The rows of one side. It is a file to write to: what COPY sends, one COPY after another."""

    tuples: Struct
    rows: int = 0
    _file: IO[bytes] = field(
        default_factory=lambda: SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (see close)
    )
    _places: list[list[tuple[int, int]]] = field(
        default_factory=lambda: [list[tuple[int, int]]() for _ in range(PARTS)]
    )
    _buffers: list[bytearray] = field(default_factory=lambda: [bytearray() for _ in range(PARTS)])
    _buffered: int = 0
    _rest: bytearray = field(default_factory=bytearray)
    _has_header: bool = False

    def write(self, data: bytes) -> int:
        """Take the next piece of a COPY."""
        self._rest += data
        if len(self._rest) >= _PIECE:
            self._take()
        return len(data)

    def end(self) -> None:
        """A COPY has ended: all its rows are taken, its trailer is dropped."""
        self._take()
        self._rest.clear()
        self._has_header = False

    def part(self, number: int) -> Iterator[tuple[Any, ...]]:
        """The rows of one part: identity, values, and what else there is of each."""
        for start, size in self._places[number]:
            self._file.seek(start)
            yield from map(_values, self.tuples.iter_unpack(self._file.read(size)))
        yield from map(_values, self.tuples.iter_unpack(self._buffers[number]))

    def close(self) -> None:
        """The file is gone."""
        self._file.close()

    def _take(self) -> None:
        rest, width, buffers = self._rest, self.tuples.size, self._buffers
        if not self._has_header:
            del rest[:_HEADER_BYTES]
            self._has_header = True
        rows = len(rest) // width
        for start in range(0, rows * width, width):
            # behind the number of fields and the length of the first one
            part = rest[start + 6] << 2 | rest[start + 7] >> 6
            buffers[part] += rest[start : start + width]
        del rest[: rows * width]
        self.rows += rows
        self._buffered += rows * width
        if self._buffered >= _BUFFERED:
            self._flush()

    def _flush(self) -> None:
        start = self._file.seek(0, 2)
        for places, buffer in zip(self._places, self._buffers, strict=True):
            if buffer:
                self._file.write(buffer)
                places.append((start, len(buffer)))
                start += len(buffer)
                buffer.clear()
        self._buffered = 0


def _values(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the number of the fields and their lengths."""
    return fields[2::2]
