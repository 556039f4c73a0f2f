"""A cursor: where each of many values stands, moved in all of them at once.

A row that does not read plainly loses its trust, and whatever is read of it after that means
nothing. No read leaves the data: a row stands at its end at most, and the data are padded.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_PADDING = bytes(16)


class Cursor:
    """Values side by side; `rows` are the indices of those that a read is about."""

    def __init__(self, values: Sequence[bytes], begin: int) -> None:
        """Each value is at least `begin` bytes long, and there it is read first."""
        self._data = np.frombuffer(b"".join([*values, _PADDING]), np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self._ends = np.cumsum(sizes)
        self._at = self._ends - sizes + begin
        self.trusted = np.ones(len(values), bool)

    def all(self) -> Array:
        """Every row."""
        return np.arange(len(self.trusted))

    def distrust(self, rows: Array) -> None:
        """These rows are read by another, value by value."""
        self.trusted[rows] = False

    def finish(self) -> Array:
        """Which rows are trusted and stand at their end."""
        found: Array = self.trusted & (self._at == self._ends)
        return found

    def longs(self, rows: Array) -> Array:
        """A zigzag number of each row."""
        at = self._at[rows]
        byte = self._data[at]
        number = (byte & 0x7F).astype(np.uint64)
        sizes = np.ones(len(rows), np.int64)
        more = np.flatnonzero(byte >= 0x80)
        for place in range(1, 10):
            if not len(more):
                break
            byte = self._data[at[more] + place]
            number[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            sizes[more] += 1
            if place == 9:
                self.distrust(rows[more[byte > 1]])
            more = more[byte >= 0x80]
        self._move(rows, sizes)
        sign = (number & np.uint64(1)).astype(np.int64)
        found: Array = (number >> np.uint64(1)).astype(np.int64) ^ -sign
        return found

    def fixed(self, rows: Array, kind: str) -> Array:
        """A number of each row, as numpy names its kind: `<f8`."""
        size = np.dtype(kind).itemsize
        found = self._data[self._at[rows][:, None] + np.arange(size)]
        self._move(rows, np.full(len(rows), size))
        return np.ascontiguousarray(found).view(kind).reshape(len(rows))

    def pieces(self, rows: Array, sizes: Array | int) -> tuple[Array, Array]:
        """So many bytes of each row, one after another; and where each begins, with the end."""
        left = self._ends[rows] - self._at[rows]
        sizes = np.broadcast_to(sizes, len(rows))
        wrong = (sizes < 0) | (sizes > left)
        self.distrust(rows[wrong])
        sizes = np.where(wrong, 0, sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self._at[rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
        self._move(rows, sizes)
        return self._data[places], offsets

    def _move(self, rows: Array, sizes: Array) -> None:
        at = self._at[rows] + sizes
        ends = self._ends[rows]
        self.distrust(rows[at > ends])
        self._at[rows] = np.minimum(at, ends)
