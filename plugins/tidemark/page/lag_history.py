"""Lag over time by partition, from what each open and each publish left in the ledger."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from tidemark.ledger.past import PastReset, TimedBatch
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.state import Run

NAMED = 11
"""Partitions with a band of their own; the others share one."""
POINTS = 400


@dataclass(frozen=True, slots=True)
class Past:
    """The newest part of a region's ledger."""

    runs: list[Run]
    batches: list[TimedBatch]
    spans: list[tuple[int, Span]]
    """Of these batches, each with its seq."""
    ends: list[tuple[int, TopicPartition, int]]
    """Epoch, partition, and where Kafka's log ended when that epoch opened."""
    resets: list[PastReset]
    offsets: Offsets
    """Where the ledger stands now."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """Offsets that the ledger had not passed, at these times; None before it is known."""

    times: list[datetime]
    bands: dict[str, list[int]]
    """By partition, the one with the largest lag first; the rest as `N others`."""

    @property
    def worst(self) -> str | None:
        """The partition that had the largest lag."""
        return next(iter(self.bands), None)


def lag_history(past: Past) -> LagHistory:
    """What Kafka held at the newest open, less what was published by then.

    The high watermark, not the target offset: records that an open transaction hides wait too.
    """
    points = _thinned(list(_points(past)))
    peaks: dict[TopicPartition, int] = {}
    for _, lag in points:
        for at, waiting in lag.items():
            peaks[at] = max(peaks.get(at, 0), waiting)
    ranked = sorted(peaks, key=lambda at: (-peaks[at], at))
    named = ranked if len(ranked) <= NAMED + 1 else ranked[:NAMED]
    others = ranked[len(named) :]
    bands = {str(at): [lag.get(at, 0) for _, lag in points] for at in named}
    if others:
        bands[f"{len(others)} others"] = [sum(lag.get(at, 0) for at in others) for _, lag in points]
    return LagHistory([moment for moment, _ in points], bands)


def _points(past: Past) -> Iterator[tuple[datetime, dict[TopicPartition, int]]]:
    read: dict[int, list[Span]] = {}
    for seq, span in past.spans:
        read.setdefault(seq, []).append(span)
    ends: dict[int, Offsets] = {}
    for epoch, at, end in past.ends:
        ends.setdefault(epoch, {})[at] = end
    stands = _first(past)
    known: Offsets = {}
    for moment, event in sorted(_events(past), key=lambda one: one[0]):
        if isinstance(event, Run):
            known |= ends.get(event.epoch, {})
        elif isinstance(event, TimedBatch):
            stands |= {span.topic_partition: span.end for span in read.get(event.seq, ())}
        else:
            stands |= _places(read, event)
        if known:
            yield moment, {at: max(0, end - stands.get(at, end)) for at, end in known.items()}


def _events(past: Past) -> Iterator[tuple[datetime, Run | TimedBatch | PastReset]]:
    yield from ((run.opened_at, run) for run in past.runs)
    yield from ((one.published_at, one) for one in past.batches if one.published_at)
    yield from ((one.finished_at, one) for one in past.resets if one.is_rewind and one.finished_at)


def _first(past: Past) -> Offsets:
    """Where each partition stood before the oldest of these batches."""
    return dict(past.offsets) | _lowest(span for _, span in past.spans)


def _places(read: dict[int, list[Span]], rewind: PastReset) -> Offsets:
    """Where a rewind put the partitions: before what it took back."""
    back = (seq for seq in read if rewind.to_seq < seq <= rewind.from_seq)
    return _lowest(span for seq in back for span in read[seq])


def _lowest(spans: Iterable[Span]) -> Offsets:
    found: Offsets = {}
    for span in spans:
        at = span.topic_partition
        found[at] = min(found.get(at, span.start), span.start)
    return found


def _thinned(points: list[tuple[datetime, dict[TopicPartition, int]]]) -> list[
    tuple[datetime, dict[TopicPartition, int]]
]:  # fmt: skip
    """At most so many of them, evenly, the newest one for certain."""
    step = -(-len(points) // POINTS) or 1
    return points[::-1][::step][::-1]
