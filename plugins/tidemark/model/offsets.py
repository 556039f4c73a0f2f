"""Partitions and spans: where a record stands. An offset is always the next one to read."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic, rendered `topic[3]`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


Offsets = dict[TopicPartition, int]
"""Partition -> next offset to read."""


def in_ranges(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, runs of them by their ends: `flights[0-3,7], orders[1]`."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return ", ".join(f"{topic}[{_runs(found)}]" for topic, found in topics.items())


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


class LogPosition(NamedTuple):
    """An offset, and the leader epoch of the record before it: both name one history (KIP-320)."""

    offset: int
    leader_epoch: int

    @classmethod
    def known(cls, offset: int | None, leader_epoch: int | None) -> "LogPosition | None":
        """The position where both are known."""
        return None if offset is None or leader_epoch is None else cls(offset, leader_epoch)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open, non-empty range `[start, end)` of one partition.

    Raises:
        ValueError: the range is empty, reversed or negative.
    """

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"span must satisfy 0 <= start < end, got {self}")

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the span lies in."""
        return TopicPartition(self.topic, self.partition)

    @property
    def width(self) -> int:
        """Offsets in the span: an upper bound of its records (markers and gaps take offsets)."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@[{self.start}, {self.end})"


def spans_in_ranges(spans: Iterable[Span]) -> str:
    """Spans, those of a topic with the same offsets together: `flights[0-3,7]@[0, 9)`."""
    alike: dict[tuple[str, int, int], list[int]] = {}
    for span in sorted(spans):
        alike.setdefault((span.topic, span.start, span.end), []).append(span.partition)
    return ", ".join(
        f"{topic}[{_runs(numbers)}]@[{start}, {end})"
        for (topic, start, end), numbers in alike.items()
    )


def offsets_text(offsets: Offsets) -> str:
    """Each partition with its offset, in order: `flights[0]@12`."""
    return ", ".join(f"{partition}@{offset}" for partition, offset in sorted(offsets.items()))


def without(topics: Container[str], offsets: Offsets) -> Offsets:
    """The offsets of all other topics."""
    return {tp: offset for tp, offset in offsets.items() if tp.topic not in topics}
