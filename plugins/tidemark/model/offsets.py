"""Partitions and spans: where a record stands. An offset is always the next one to read."""

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
