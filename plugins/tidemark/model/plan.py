"""The plan of a batch: which span of each partition it takes. Max-min fair (KIP-41).

Bounds say how much one batch and one run may take; below them a batch is as large as the time
allows that the newest ones took.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple, Self

from tidemark.model.errors import BoundOutOfRange
from tidemark.model.offsets import Offsets, Span, TopicPartition


def plan(next_offsets: Offsets, targets: Offsets, max_records: int, turn: int) -> tuple[Span, ...]:
    """Share max_records offsets over the partitions that have not reached their target offset.

    Deterministic: the same arguments give the same spans. A backlog gives at least one span,
    no backlog gives none. `turn` (the batch's seq) rotates who gets the remainder: with
    max_records < partitions everyone is served within ceil(partitions / max_records) batches.
    """
    backlog = {
        partition: target - next_offsets[partition]
        for partition, target in targets.items()
        if target > next_offsets[partition]
    }
    return tuple(
        Span(*partition, start := next_offsets[partition], start + width)
        for partition, width in sorted(share(backlog, max_records, turn).items())
        if width
    )


def fit(
    next_offsets: Offsets,
    targets: Offsets,
    max_records: int,
    turn: int,
    weights: Mapping[TopicPartition, float],
    max_bytes: int,
) -> tuple[Span, ...]:
    """The largest fair plan of at most max_records offsets that weighs at most max_bytes.

    `weights` are measured bytes an offset; a partition that was never read weighs nothing yet.
    A backlog gives at least one offset, however heavy.
    """
    spans = plan(next_offsets, targets, max_records, turn)
    if _weight(spans, weights) <= max_bytes:
        return spans
    fewest, most = 1, sum(span.width for span in spans) - 1
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if _weight(plan(next_offsets, targets, middle, turn), weights) <= max_bytes:
            fewest = middle
        else:
            most = middle - 1
    return plan(next_offsets, targets, fewest, turn)


def _weight(spans: Iterable[Span], weights: Mapping[TopicPartition, float]) -> float:
    return sum(weights.get(span.topic_partition, 0.0) * span.width for span in spans)


def share(
    backlog: Mapping[TopicPartition, int], max_records: int, turn: int
) -> dict[TopicPartition, int]:
    """Fill the partitions like vessels: equal shares, what a short one leaves goes to the others.

    The remainder of an uneven division goes one offset each to the partitions whose turn it is.
    """
    shares = dict.fromkeys(backlog, 0)
    left = min(max_records, sum(backlog.values()))
    thirsty = sorted(backlog)
    while left:
        level = left // len(thirsty)
        if level == 0:
            first = turn * left % len(thirsty)
            for partition in (thirsty[first:] + thirsty[:first])[:left]:
                shares[partition] += 1
            break
        for partition in thirsty:
            poured = min(level, backlog[partition] - shares[partition])
            shares[partition] += poured
            left -= poured
        thirsty = [p for p in thirsty if shares[p] < backlog[p]]
    return shares


MAX_BIGINT = 2**63 - 1
"""The largest number that the ledger holds: of a limit, and of a seq."""

MOST_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a batch (records, bytes, seconds) and of a run (batches, seconds); None is none.

    Raises:
        InvalidSettings: a limit is not positive, or larger than the ledger holds; or more batches
            than two are in flight.
    """

    max_records: int
    max_batches: int | None = None
    max_seconds: int | None = None
    max_bytes: int | None = None
    in_flight: int = 1
    """Batches that are planned and not published, at most."""
    seconds: int | None = None
    """A batch is to be drained, and to be published, in so many."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and not 0 < value <= MAX_BIGINT:
                raise BoundOutOfRange(name=name, value=value, limit=MAX_BIGINT)
        if self.in_flight > MOST_IN_FLIGHT:
            raise BoundOutOfRange(name="in_flight", value=self.in_flight, limit=MOST_IN_FLIGHT)

    @property
    def told(self) -> str:
        """How large a batch may be, for a person."""
        time = f"what {self.seconds} s allow, " if self.seconds else ""
        return f"{time}at most {self.max_records:,} records{self._bytes_told}"

    @property
    def _bytes_told(self) -> str:
        if self.max_bytes is None:
            return ""
        whole, rest = divmod(self.max_bytes, 1 << 20)
        return f" and {self.max_bytes:,} bytes" if rest else f" and {whole:,} MiB"


SLOW_START = 4
"""Batches after a reset that are smaller than the bound: 1/16, 1/8, 1/4 and 1/2 of it."""


def slow_start(max_records: int, since_reset: int | None) -> int:
    """Offsets that the next batch may have, `since_reset` checkpoints after a reset.

    What made a run fail may lie in its next records: small batches fail sooner, cost less and
    show where it lies. None means that the region was never reset.
    """
    if since_reset is None or since_reset >= SLOW_START:
        return max_records
    return max(1, max_records >> (SLOW_START - since_reset))


class SizedBy(StrEnum):
    """What kept a batch from being larger."""

    backlog = "backlog"
    """It took all that was there up to the target offsets."""
    seconds = "seconds"
    """More would take longer than `batch.seconds`."""
    growth = "growth"
    """It is the region's first, or twice the one before it, or that one told no rate."""
    max_records = "max_records"
    max_bytes = "max_bytes"
    slow_start = "slow_start"
    """There was a reset just before."""


FIRST_OFFSETS = 100_000
"""Of a region's first batch, whose time nobody knows: a second of a quick transform on two cores,
and less than `no_progress_seconds` of one that makes 400 rows/s."""

FEWEST_OFFSETS = 10_000
"""Time bounds a batch to no fewer: whatever is measured, a backlog is worked off."""

MOST_SIZES = 50
"""Of the newest batches, so many are compared."""


class SizeTaken(NamedTuple):
    """A planned or published batch whose size time bounded."""

    most: int
    """Offsets that it might take by its time."""
    offsets: int
    seconds: float | None
    """That its drain took, or its publish, whichever was longer; None: it is not published yet."""

    def times(self, other: "SizeTaken") -> float:
        """How many times as large the larger one is as the smaller one."""
        return max(self.offsets, other.offsets) / min(self.offsets, other.offsets)

    def fitting(self, seconds: int, of_job: float) -> int | None:
        """Offsets that take so long at its rate; None: it tells no rate.

        `of_job` are the seconds that a job takes whatever it reads. Where they are more than half
        of `seconds`, a batch has as many again: smaller ones would not end sooner, but be more.
        Of a batch that is small beside what it might take, because there was no more, the time is
        that of starting a job. It tells something only where even that took too long.
        """
        allowed = max(seconds, 2 * of_job)
        if self.seconds is None or (2 * self.offsets < self.most and self.seconds <= allowed):
            return None
        each = max(self.seconds - of_job, 0.001) / self.offsets
        return max(FEWEST_OFFSETS, round((allowed - of_job) / each))


def seconds_of_job(newest: SizeTaken, older: Iterable[SizeTaken], shortest: float) -> float:
    """What a job takes whatever it reads, by the newest batch and the last of quite another size.

    On the line through both it is the time of no offsets, and no more than the `shortest` batch
    took. 0 where all have much the same size, or where the larger one was quicker: then the records
    are others, not their number.
    """
    other = next((one for one in older if newest.times(one) >= 2), None)
    if other is None or newest.seconds is None or other.seconds is None:
        return 0.0
    less, more = sorted(((newest.offsets, newest.seconds), (other.offsets, other.seconds)))
    each = (more[1] - less[1]) / (more[0] - less[0])
    return min(shortest, max(0.0, less[1] - each * less[0])) if each > 0 else 0.0


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """What the ledger knows of a region's newest batches."""

    newest: SizeTaken | None = None
    """It may not be published."""
    timed: SizeTaken | None = None
    """The newest one whose time is known; of two in flight it is the last but one."""
    of_job: float = 0.0
    """Seconds that a job takes whatever it reads."""

    @classmethod
    def of(cls, newest_first: Iterable[SizeTaken]) -> Self:
        """Of the newest batches."""
        found = list(newest_first)
        timed = [one for one in found if one.seconds is not None]
        if not timed:
            return cls(found[0] if found else None)
        shortest = min(one.seconds or 0.0 for one in timed)
        return cls(found[0], timed[0], seconds_of_job(timed[0], timed[1:], shortest))


def by_time(seconds: int, sizes: BatchSizes) -> tuple[int, SizedBy]:
    """Offsets that the next batch may take by its time, and what keeps it from taking more.

    It falls at once to what its rate allows; it grows to twice the batch before it at most, and not
    before a rate shows that it may.
    """
    if sizes.newest is None:
        return FIRST_OFFSETS, SizedBy.growth
    fitting = sizes.timed.fitting(seconds, sizes.of_job) if sizes.timed else None
    if fitting is None:
        return sizes.newest.most, SizedBy.growth
    grown = max(sizes.newest.most, 2 * sizes.newest.offsets)
    return (fitting, SizedBy.seconds) if fitting <= grown else (grown, SizedBy.growth)


@dataclass(frozen=True, slots=True)
class BatchSize:
    """How large a batch is planned."""

    offsets: int
    by: SizedBy
    most: int | None
    """Offsets that it might take by its time, which the next one goes by; None: time bounds it not.
    """


@dataclass(frozen=True, slots=True)
class BatchRoom:
    """How many offsets the next batch may take, at least one; bytes may leave it fewer."""

    offsets: int
    by: SizedBy
    most: int | None

    @classmethod
    def of(cls, bounds: Bounds, sizes: BatchSizes, since_reset: int | None) -> Self:
        """What bounds, time and slow start leave; `since_reset` as for `slow_start`."""
        offsets, by, most = bounds.max_records, SizedBy.max_records, None
        if bounds.seconds is not None:
            most, by_its_time = by_time(bounds.seconds, sizes)
            if most < offsets:
                offsets, by = most, by_its_time
        slow = slow_start(offsets, since_reset)
        return cls(*((slow, SizedBy.slow_start) if slow < offsets else (offsets, by)), most)

    def size(self, spans: Iterable[Span], backlog: int) -> BatchSize:
        """The size of a plan that was made in this room, of so many offsets that there are."""
        taken = sum(span.width for span in spans)
        if taken == backlog:
            return BatchSize(taken, SizedBy.backlog, self.most)
        return BatchSize(taken, self.by if taken == self.offsets else SizedBy.max_bytes, self.most)
