"""Since when records wait: the time of the first unread one, found without reading any.

Kafka is asked for the first record at or after a time, again and again, for all partitions at once.
A consumer would fetch whole record batches at each look, and one that is corrupt can end its
process (see probe.py): just then the numbers are needed.
"""

from collections.abc import Callable, Mapping
from time import monotonic

from tidemark.model.offsets import Offsets, TopicPartition

Found = tuple[int, int]
"""Offset and time (ms) of the first record at or after a time; offset -1 if there is none."""

FirstSince = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]]

FIRST_STEP_MS = 1000
WIDER = 4
"""Each look goes back this many times as far, until it leads to a record that was read."""


def oldest_unread(
    first_since: FirstSince, offsets: Offsets, now_ms: int, seconds: float
) -> dict[TopicPartition, int]:
    """The time (ms) of the first record at or after each offset; none where it is not known.

    It is that of the first one that is newer than all before it. No look begins after so many
    seconds: then it may be that of a later record.
    """
    deadline = monotonic() + seconds
    searches = {where: _Search(offset, now_ms) for where, offset in offsets.items()}
    while (asked := _asked(searches)) and monotonic() < deadline:
        for where, found in first_since(asked).items():
            searches[where].hear(*found)
    return {where: one.time for where, one in searches.items() if one.time is not None}


def _asked(searches: "Mapping[TopicPartition, _Search]") -> dict[TopicPartition, int]:
    return {where: at for where, one in searches.items() if (at := one.next) is not None}


class _Search:
    """Between a time that leads to a read record and one that leads to an unread one."""

    def __init__(self, offset: int, now_ms: int) -> None:
        self.time: int | None = None
        """Of the first unread record, as far as it is known."""
        self.next: int | None = now_ms
        """The time to ask for; None: the search is over."""
        self._offset = offset
        self._now = now_ms
        self._read, self._read_offset = -1, -1
        """The newest record that is known to be read: its time and offset; -1: none is."""
        self._unread, self._unread_offset = now_ms, -1
        """The earliest time that leads to an unread record, and to which; -1: to none."""
        self._looks = 0

    def hear(self, offset: int, time_ms: int) -> None:
        """What stands at the time that was asked for."""
        asked = self.next or 0
        if 0 <= offset < self._offset:
            self._read, self._read_offset = max(asked, time_ms), offset
        else:
            self._unread, self._unread_offset = asked, offset
            self.time = time_ms if offset >= 0 else None
        is_over = offset == self._offset or self._unread - self._read <= 1
        self.next = None if is_over else self._between()
        # A record that was read may bear a time to come: then no time leads to the unread ones.
        if is_over and self.time is None and self._read < self._now:
            self.time = self._unread

    def _between(self) -> int:
        """A time to ask for: further back; then in turns by the offsets, next, and in the middle.

        By the offsets a steady stream is searched in a few looks, next to a record that was read a
        gap is found, and the middle bounds their number.
        """
        if self._read_offset < 0:
            age = max(FIRST_STEP_MS, self._now - self._unread)
            return max(0, self._now - WIDER * age)
        self._looks += 1
        between = self._unread - self._read
        match self._looks % 3:
            case 1 if self._unread_offset > self._offset:
                parts = self._unread_offset - self._read_offset
                step = between * (self._offset - self._read_offset) // parts
            case 2:
                step = 1
            case _:
                step = between // 2
        return self._read + min(max(step, 1), between - 1)
