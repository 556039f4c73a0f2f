"""Many values at once: a cursor stands in each of them, and all move together.

A row that does not read plainly loses its trust, and whatever is read of it after that means
nothing. No read leaves the data: a row stands at its end at most, and the data are padded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemark.decode._exact import FLOAT32_END

Array = npt.NDArray[Any]

_PADDING = bytes(16)
_LONG = 30


class Cursor:
    """Values side by side; `rows` are the indices of those that a read is about."""

    def __init__(self, values: Sequence[bytes], begin: int) -> None:
        """Each value is at least `begin` bytes long, and there it is read first."""
        self._bytes = b"".join([*values, _PADDING])
        self._data = np.frombuffer(self._bytes, np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self._ends = np.cumsum(sizes)
        self._at = self._ends - sizes + begin
        self.trusted = np.ones(len(values), bool)

    def all(self) -> Array:
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
        return unzigzag(self.varints(rows))

    def varints(self, rows: Array) -> Array:
        """A number of each row, of 64 bits without a sign, in as few bytes as it takes."""
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
            self.distrust(rows[more[(byte == 0) | (byte > (1 if place == 9 else 0xFF))]])
            more = more[byte >= 0x80]
        self._move(rows, sizes)
        found: Array = number
        return found

    def follow(self, rows: Array, tag: bytes) -> Array:
        """At which of these rows the tag stands; they stand behind it then."""
        at = self._at[rows]
        there: Array = at + len(tag) <= self._ends[rows]
        for place, byte in enumerate(tag):
            there &= self._data[at + place] == byte
        self._at[rows] += there * len(tag)
        return there

    @contextmanager
    def part(self, rows: Array) -> Iterator[None]:
        """What is read within is a part that begins with its length, and is read to its end."""
        sizes, outer = self.varints(rows).astype(np.int64), self._ends[rows]
        wrong = (sizes < 0) | (sizes > outer - self._at[rows])
        self.distrust(rows[wrong])
        ends = self._at[rows] + np.where(wrong, 0, sizes)
        self._ends[rows] = ends
        yield
        self.distrust(rows[self._at[rows] != ends])
        self._ends[rows] = outer

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
        begins = self._at[rows]
        self._move(rows, sizes)
        if offsets[-1] > _LONG * len(rows):  # a slice takes as long as so many bytes one by one
            ends = (begins + sizes).tolist()
            found = b"".join(map(self._bytes.__getitem__, map(slice, begins.tolist(), ends)))
            return np.frombuffer(found, np.uint8), offsets
        places = np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])
        return self._data[places], offsets

    def _move(self, rows: Array, sizes: Array) -> None:
        at = self._at[rows] + sizes
        ends = self._ends[rows]
        self.distrust(rows[at > ends])
        self._at[rows] = np.minimum(at, ends)


Column = Callable[[Cursor, Array], pa.Array]
"""Reads a field of these rows: an Arrow array as long as they are many."""


def together(
    values: Sequence[bytes],
    begin: int,
    read: Callable[[Cursor, Array], Sequence[pa.Array]],
    schema: pa.Schema,
) -> tuple[pa.RecordBatch, Array]:
    """The rows of the values that could be read, and which these are; data start at `begin`."""
    cursor = Cursor(values, begin)
    with np.errstate(invalid="ignore"):  # a NaN that signals is a NaN
        arrays = read(cursor, cursor.all())
    good = cursor.finish()
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return (batch if good.all() else batch.filter(pa.array(good))), good


def unzigzag(number: Array) -> Array:
    """Signed numbers of the same bits."""
    sign = (number & np.uint64(1)).astype(np.int64)
    found: Array = (number >> np.uint64(1)).astype(np.int64) ^ -sign
    return found


def reals(kind: str, to: pa.DataType, cursor: Cursor, rows: Array) -> pa.Array:
    """Numbers of a kind of numpy's, as floats of the declared type."""
    numbers = cursor.fixed(rows, kind).astype(np.float64)
    if pa.types.is_float64(to):
        return pa.array(numbers)
    wrong = (np.abs(numbers) >= FLOAT32_END) & np.isfinite(numbers)
    cursor.distrust(rows[wrong])
    return pa.array(np.where(wrong, 0, numbers).astype(np.float32))


def texts(cursor: Cursor, rows: Array, sizes: Array) -> pa.Array:
    """Texts that hold something else than ASCII are left, where one of them is not UTF-8."""
    data, offsets = cursor.pieces(rows, sizes)
    cursor.distrust(rows[_holding(data == 0, offsets)])
    try:
        return strung(data, offsets).cast(pa.string())
    except pa.ArrowInvalid:
        odd = data >= 0x80
        cursor.distrust(rows[_holding(odd, offsets)])
        return strung(np.where(odd, 0, data), offsets).cast(pa.string())


def _holding(odd: Array, offsets: Array) -> Array:
    """Which pieces hold one of these bytes."""
    return np.unique(np.searchsorted(offsets, np.flatnonzero(odd), "right") - 1)


def strung(data: Array, offsets: Array) -> pa.Array:
    """The pieces as they are."""
    buffers = [
        None,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
