"""Deletions that compaction may have taken before they were read.

Kafka's compaction takes a tombstone once it has kept it for `delete.retention.ms` (KIP-534), and
the log's start does not move. So it is judged by time: how long the topic keeps deletions, and how
long ago the log ended where the ledger stands.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tidemark.model.offsets import Offsets, Span, TopicPartition

DELETIONS_KEPT = "delete.retention.ms"
"""For how long a topic keeps deletions that compaction has met; Kafka's default is 24 h."""

SHARE = 2
"""A pause of half the time that deletions are kept may be too long the next time."""

FOR_EVER = 1e9
"""In seconds: a time so long is not told from a longer one."""


@dataclass(frozen=True, slots=True)
class UnreadSince:
    """How long deletions of a partition may have waited, as the ledger knows it."""

    seconds: float
    """Since an open last saw the log end where the ledger stands now, or before it."""
    kept_ms: int | None = None
    """The shortest time for which the topic kept deletions at an open since then; None: for ever,
    or not known."""


@dataclass(frozen=True, slots=True)
class WaitingDeletions:
    """Offsets that hold deletions, perhaps, and for how long they may have waited to be read."""

    span: Span
    seconds: float
    kept_ms: int

    @property
    def seconds_left(self) -> float:
        """Until compaction may take some of them."""
        return min(self.kept_ms / 1000 - self.seconds, FOR_EVER)

    @property
    def is_long(self) -> bool:
        """Whether a pause that is twice as long would be too long."""
        return self.seconds * 1000 * SHARE >= self.kept_ms

    @property
    def is_overdue(self) -> bool:
        """Whether compaction may have taken some of them."""
        return self.seconds * 1000 > self.kept_ms

    def __str__(self) -> str:
        waited, kept = duration(self.seconds), duration(self.kept_ms / 1000)
        return (
            f"deletions in {self.span} may have waited for {waited} to be read, and the topic keeps"
            f" them for {kept}"
        )


def duration(seconds: float) -> str:
    """In the largest unit of which there is one at least: hours, minutes, seconds."""
    for name, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} s"


def waiting(
    next_offsets: Offsets,
    ends: Offsets,
    kept_by: Callable[[str], int | None],
    unread: Mapping[TopicPartition, UnreadSince],
) -> Iterator[WaitingDeletions]:
    """Where deletions may wait to be read, in topics that do not keep them for ever.

    `kept_by` says for how many ms a topic keeps them now; None: for ever, or not known.
    """
    for tp, one in sorted(unread.items()):
        kept = [ms for ms in (one.kept_ms, kept_by(tp.topic)) if ms is not None]
        start, end = next_offsets.get(tp), ends.get(tp)
        if not kept or start is None or end is None or start >= end:
            continue
        yield WaitingDeletions(Span(*tp, start, end), one.seconds, min(kept))
