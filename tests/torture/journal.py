"""What a producer was told that Kafka has, and what of it a target lacks."""

import json
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from time import time
from typing import NamedTuple


class Acked(NamedTuple):
    """A record that Kafka acknowledged."""

    partition: int
    offset: int
    value: str


@dataclass
class Journal:
    """The acknowledgements in the order of their arrival, each with its time (seconds)."""

    acked: list[Acked] = field(default_factory=list)
    _times: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    _offsets: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _lock: Lock = field(default_factory=Lock)

    def hear(self, line: str) -> None:
        """Take a line of VerifiableProducer's output."""
        if '"producer_send_success"' not in line:
            return
        told = json.loads(line)
        self.add(Acked(told["partition"], told["offset"], told["value"]), time())

    def add(self, record: Acked, at: float) -> None:
        """The record was acknowledged by that time."""
        with self._lock:
            self.acked.append(record)
            self._times[record.partition].append(at)
            insort(self._offsets[record.partition], record.offset)

    def offsets_by(self, at: float, newest: int) -> dict[int, list[int]]:
        """Of each partition the newest offsets, at most so many, that surely were there then.

        Offsets are acknowledged in their order, but for retries: those that could differ are
        left out.
        """
        with self._lock:
            found = {}
            for partition, times in self._times.items():
                count = bisect_right(times, at)
                found[partition] = self._offsets[partition][max(0, count - newest) : count]
            return found


def missing(acked: Iterable[Acked], rows: Iterable[tuple[int, int, str]]) -> Iterator[str]:
    """Every acknowledged record that is not a row at its place with its value."""
    there = {(partition, offset): value for partition, offset, value in rows}
    for record in acked:
        found = there.get((record.partition, record.offset))
        if found is None:
            yield f"acknowledged and in no row: {record}"
        elif found != record.value:
            yield f"altered: {record} is {found!r}"
