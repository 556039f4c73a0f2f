"""The plan of a batch: which span of each partition it takes. Max-min fair (KIP-41).

Bounds say how much one batch and one run may take.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from tidemark.model.errors import BoundOutOfRange, TooManyInFlight
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
            for partition in _rotated(thirsty, turn * left)[:left]:
                shares[partition] += 1
            break
        for partition in thirsty:
            poured = min(level, backlog[partition] - shares[partition])
            shares[partition] += poured
            left -= poured
        thirsty = [p for p in thirsty if shares[p] < backlog[p]]
    return shares


def _rotated(partitions: list[TopicPartition], places: int) -> list[TopicPartition]:
    pivot = places % len(partitions)
    return partitions[pivot:] + partitions[:pivot]


MAX_BIGINT = 2**63 - 1
"""The largest number that the ledger holds: of a limit, and of a seq."""

MOST_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a batch (records, bytes) and of a run (batches, seconds); None is no limit.

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

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if value is not None and not 0 < value <= MAX_BIGINT:
                raise BoundOutOfRange(name=name, value=value, limit=MAX_BIGINT)
        if self.in_flight > MOST_IN_FLIGHT:
            raise TooManyInFlight(in_flight=self.in_flight)


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
