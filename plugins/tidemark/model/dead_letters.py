"""Dead letters: how many of a batch's records may become one."""

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from tidemark.model.offsets import TopicPartition

JUDGED_FROM = 100
"""Records; a ratio judges more than these. A smaller batch is judged with those before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run: the part of a batch's records, and their number; None is no limit."""

    max_ratio: float = 0.5
    max_count: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why records of a batch became dead letters, how many, and the first of them."""

    text: str
    count: int
    example: str
    """As topic[partition]@offset."""

    def __str__(self) -> str:
        return f"{self.count} {self.text}, the first {self.example}"


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant; what is not given is all of them."""

    reasons: tuple[str, ...] = ()
    since: datetime | None = None
    """Published then or later. A record's own time is foreign data, and may be missing."""
    until: datetime | None = None
    """Published before."""
    partition: TopicPartition | None = None


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

        A small batch may have those that it and the ones before it may have together: a few bad
        records stop nothing, nothing but bad ones in batch after small batch do. Where it is
        within the ratio by itself, what came before does not matter.
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
