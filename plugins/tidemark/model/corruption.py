"""Corrupt ranges: what a person tells one run to leave out, and nothing beside it."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tidemark.model.errors import AcceptedRangeNotDue, AcceptedRangesOverlap, AcceptedTextHasNoRange
from tidemark.model.offsets import Offsets, Span
from tidemark.model.overrides import ACCEPT_CORRUPT

_RANGE = re.compile(r"([\w.-]+)\[(\d{1,9})\]@\[(\d{1,18}),\s*(\d{1,18})\)")


def leave_out(span: Span) -> str:
    """How a person goes on without these records."""
    return (
        f"to go on without exactly these offsets, start the next run with --accept-corrupt"
        f" '{span}' (also in the DAG's form); the ledger records it"
    )


def accepted_ranges(overrides: Iterable[str]) -> tuple[Span, ...]:
    """The ranges that the overrides name, in order; one override may name several.

    Raises:
        InvalidSettings: one is no range.
    """
    found: list[Span] = []
    for override in overrides:
        name, _, text = override.partition(" ")
        if name == ACCEPT_CORRUPT:
            found += _ranges(text)
    return tuple(sorted(set(found)))


def still_due(override: str, next_offsets: Offsets) -> str | None:
    """What is left of an override that an earlier open of its run was given; None: nothing.

    A range that nobody has come to is what a person has allowed, and has allowed nothing yet. All
    else has done its work in the transaction of that open.
    """
    left = ahead(accepted_ranges([override]), next_offsets)
    return f"{ACCEPT_CORRUPT} {', '.join(map(str, left))}" if left else None


def refuse_ranges_not_due(
    region: str, ranges: Sequence[Span], next_offsets: Offsets, ends: Offsets
) -> None:
    """Refuse to leave out what was read, what the run does not come to, or an offset twice.

    Raises:
        Refused: a range does not lie between the ledger's offset and the run's target offset, or
            two overlap.
    """
    for one, other in pairwise(sorted(ranges)):
        if one.topic_partition == other.topic_partition and other.start < one.end:
            raise AcceptedRangesOverlap(region=region, one=one, other=other)
    for span in ranges:
        at, end = next_offsets.get(span.topic_partition), ends.get(span.topic_partition)
        if at is None or end is None or not at <= span.start < span.end <= end:
            raise AcceptedRangeNotDue(region=region, span=span, next_offset=at, end=end)


def reached(ranges: Iterable[Span], next_offsets: Offsets) -> list[Span]:
    """The ranges that begin where their partition stands, one after the other."""
    at, found = dict(next_offsets), []
    for span in sorted(ranges):
        if at.get(span.topic_partition) == span.start:
            at[span.topic_partition] = span.end
            found.append(span)
    return found


def ahead(ranges: Iterable[Span], next_offsets: Offsets) -> list[Span]:
    """The ranges that do not begin before the next offset of their partition."""
    return [span for span in ranges if span.start >= next_offsets.get(span.topic_partition, 0)]


def stopped(targets: Offsets, next_offsets: Offsets, ranges: Iterable[Span]) -> Offsets:
    """The target offsets, each at most where the next range begins: what lies before it is read."""
    coming = sorted(ahead(ranges, next_offsets), reverse=True)
    nearest = {span.topic_partition: span.start for span in coming}
    return {tp: min(end, nearest.get(tp, end)) for tp, end in targets.items()}


def _ranges(text: str) -> list[Span]:
    found = _RANGE.findall(text)
    if not found or _RANGE.sub("", text).strip(" ,;\r\n\t"):
        raise AcceptedTextHasNoRange(given=text)
    try:
        return [Span(topic, int(partition), int(a), int(b)) for topic, partition, a, b in found]
    except ValueError:  # it is empty or reversed
        raise AcceptedTextHasNoRange(given=text) from None
