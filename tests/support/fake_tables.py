"""The tables of a ledger in memory: one value, which a model keeps and compares."""

from collections.abc import Sequence
from typing import NamedTuple

from tidemark.model.batch import Batch, PlannedSpan
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.plan import Bounds

REGION = "r"
TOPIC = "t"
TOPIC_ID = "id"
CLUSTER = "c"
TARGET = "public.t"


class Claim(NamedTuple):
    """Spans of a batch that a member has staged by one attempt; each offset is a row."""

    member: int
    attempt: int
    spans: tuple[Span, ...]

    @property
    def rows(self) -> int:
        return sum(span.width for span in self.spans)


class Planned(NamedTuple):
    """An unpublished batch."""

    seq: int
    epoch: int
    previous_seq: int
    spans: tuple[Span, ...]
    claims: tuple[Claim, ...] = ()

    @property
    def claimed(self) -> list[Span]:
        return [span for claim in self.claims for span in claim.spans]


class Published(NamedTuple):
    """A checkpoint."""

    seq: int
    epoch: int
    previous_seq: int
    rows: int


class Tables(NamedTuple):
    """All that is durable; UNLOGGED staging too, until Postgres crashes."""

    offsets: tuple[int, ...]
    """By partition."""
    epoch: int = 0
    head_seq: int = 0
    next_seq: int = 1
    planned: tuple[Planned, ...] = ()
    published: tuple[Published, ...] = ()
    run: tuple[int, str, Bounds, tuple[int, ...]] | None = None
    """The newest one's epoch, run id, bounds and target offsets."""
    reset_epoch: int | None = None
    staged: frozenset[tuple[int, int, int, Span]] = frozenset()
    """Seq, member, attempt, span."""
    rows: tuple[tuple[int, Span], ...] = ()
    """The target: the spans whose rows are in it, with their batch's seq."""


def offsets_of(numbers: Sequence[int]) -> Offsets:
    """By partition of the one topic."""
    return {TopicPartition(TOPIC, place): number for place, number in enumerate(numbers)}


def as_batch(planned: Planned) -> Batch:
    """As the ports show it."""
    claimed = planned.claimed
    spans = tuple(PlannedSpan(span, TOPIC_ID, span in claimed) for span in planned.spans)
    is_complete = all(span.claimed for span in spans)
    return Batch(REGION, planned.epoch, planned.seq, spans, len(spans), is_complete)
