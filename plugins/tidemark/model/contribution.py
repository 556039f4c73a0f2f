"""What a member contributes to a batch: spans that it has read, and rows that it has staged."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.model.offsets import LogPosition, Span

Rows = Mapping[str, int]
"""How many rows, by the name of their target."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A winning task attempt of a member: the staging rows it wrote are the ones that count."""

    member: int
    attempt: int
    rows: Rows
    """All of them in one COMMIT: what it made of a record stands in every target, or in none."""


@dataclass(slots=True)
class Tally:
    """What has been read of a span so far."""

    records: int = 0
    bytes: int = 0
    """Values, as read."""
    read_up_to: LogPosition | None = None
    """After the last record; None while there is none, or where the broker tells no epoch."""


@dataclass(frozen=True, slots=True)
class SpanRead:
    """A complete read of one span by one attempt: records seen and dead letters staged."""

    span: Span
    member: int
    attempt: int
    records: int
    dead_letters: int
    bytes: int = 0
    read_up_to: LogPosition | None = None

    @property
    def record_end(self) -> int | None:
        """Offset after the last record; None as for `read_up_to`."""
        return self.read_up_to.offset if self.read_up_to else None

    @property
    def leader_epoch(self) -> int | None:
        """Of the last record; None as for `read_up_to`."""
        return self.read_up_to.leader_epoch if self.read_up_to else None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one member has staged for a batch: whole spans, winners, counts."""

    member: int
    reads: tuple[SpanRead, ...]
    winners: tuple[Attempt, ...]

    @property
    def rows(self) -> dict[str, int]:
        """Rows staged by the winning attempts, by target."""
        found: Counter[str] = Counter()
        for winner in self.winners:
            found.update(winner.rows)
        return dict(found)

    @property
    def dead_letters(self) -> int:
        """Dead letters staged by the reads that count."""
        return sum(read.dead_letters for read in self.reads)
