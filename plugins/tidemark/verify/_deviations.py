"""Deviations: the rows that records should give beside those that a table has.

A record below `until` must be there. One from there up to the log's end may be: the other tool goes
on meanwhile, and commits its offsets after its rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from tidemark.verify._fingerprints import PARTS, Fingerprints
from tidemark.verify.report import Kind

NO_ROW = bytes(16)
"""The values of a row that the table can't hold: none of its rows is it."""


class Other(StrEnum):
    """What is counted besides what is wrong."""

    untold = "untold"
    """A row that records may have given which Kafka no longer holds."""
    ahead = "ahead"
    """A row of a record that need not be there yet."""


class Version(NamedTuple):
    """A row that a record gives, or the deletion of its key."""

    row: bytes
    place: int
    """The number of its partition."""
    offset: int
    deletes: int


@dataclass(frozen=True, slots=True)
class Deviation:
    """One thing that is wrong, by fingerprints."""

    kind: Kind | Other
    identity: bytes
    wanted: Version | None = None
    """What should be there, or what is there too often."""
    row: bytes | None = None
    """What is there."""
    older: Version | None = None
    """The older record whose row it is."""


class Judge(Protocol):
    """Judges the rows of one identity."""

    @property
    def until(self) -> Sequence[int]:
        """Below which offset rows must be there, by the number of the partition."""

    def __call__(
        self, identity: bytes, versions: Sequence[Version], rows: Counter[bytes], /
    ) -> Iterator[Deviation]:
        """What is wrong with them, and what else is counted."""


def deviations(expected: Fingerprints, found: Fingerprints, judge: Judge) -> Iterator[Deviation]:
    """All that is wrong, part by part."""
    for number in range(PARTS):
        versions: dict[bytes, list[Version]] = {}
        rows: dict[bytes, list[bytes]] = {}
        for identity, row, place, offset, deletes in expected.part(number):
            version = Version(row, place, offset, deletes)
            versions.setdefault(identity, []).append(version)
        for identity, row in found.part(number):
            rows.setdefault(identity, []).append(row)
        for identity in versions.keys() | rows.keys():
            records, there = versions.get(identity, []), rows.get(identity, [])
            is_as_it_should_be = (
                len(records) == len(there) == 1
                and records[0].row == there[0]
                and not records[0].deletes
                and records[0].offset < judge.until[records[0].place]
            )
            if not is_as_it_should_be:
                yield from judge(identity, records, Counter(there))


@dataclass(frozen=True, slots=True)
class Appended:
    """Each record has its rows: the identity is its coordinates, or all that a row holds."""

    until: Sequence[int]
    """By the number of the partition."""
    is_whole: bool
    """Whether Kafka holds each record that there was; else a surplus row may be of one."""
    has_coordinates: bool

    def __call__(
        self, identity: bytes, versions: Sequence[Version], rows: Counter[bytes]
    ) -> Iterator[Deviation]:
        """What is wrong; a row with other values than its record's is altered."""
        of_row = {one.row: one for one in versions}
        may = Counter(one.row for one in versions)
        must = Counter(one.row for one in versions if one.offset < self.until[one.place])
        extra = rows - may
        lost = [*(must - rows).elements()]
        beside = [*(may - rows).elements()]
        for row in extra.elements():
            if not self.is_whole and not (versions and self.has_coordinates):
                yield Deviation(Other.untold, identity, None, row)
            elif row in may:
                yield Deviation(Kind.doubled, identity, of_row[row], row)
            elif beside:
                wanted = lost.pop() if lost else beside[-1]
                beside.remove(wanted)
                yield Deviation(Kind.altered, identity, of_row[wanted], row)
            else:
                yield Deviation(Kind.foreign, identity, None, row)
        yield from (Deviation(Kind.lost, identity, of_row[row]) for row in lost)
        ahead = (rows & may) - must
        yield from (Deviation(Other.ahead, identity, of_row[row]) for row in ahead.elements())


@dataclass(frozen=True, slots=True)
class LastWins:
    """A key has the row of its last record, or none if that deletes it.

    Of a key in several partitions nobody knows the order: each partition's last one will do.
    """

    until: Sequence[int]
    is_whole: bool

    def __call__(
        self, identity: bytes, versions: Sequence[Version], rows: Counter[bytes]
    ) -> Iterator[Deviation]:
        """What is wrong with the one row that the key should have, or not have."""
        if not versions:
            kind = Kind.foreign if self.is_whole else Other.untold
            yield from (Deviation(kind, identity, None, row) for row in rows.elements())
            return
        ordered = sorted(versions, key=lambda one: (one.offset, not one.deletes))
        good = [*self._acceptable(ordered)]
        last = good[0]
        if not rows:
            must = last.offset < self.until[last.place]
            if must and not any(one.deletes for one in good):
                yield Deviation(Kind.lost, identity, last)
            return
        right = {one.row: one for one in good if not one.deletes}
        first = next((row for row in rows if row in right), next(iter(rows)))
        if first not in right:
            older = next((v for v in reversed(ordered) if v.row == first and not v.deletes), None)
            kind = Kind.stale if older or last.deletes else Kind.altered
            yield Deviation(kind, identity, last, first, older=older)
        for row in (rows - Counter([first])).elements():
            yield Deviation(Kind.doubled, identity, last, row)

    def _acceptable(self, ordered: Sequence[Version]) -> Iterator[Version]:
        """The last one that must be there of each partition, and all that may be there."""
        required = {one.place: one for one in ordered if one.offset < self.until[one.place]}
        yield from sorted(required.values(), key=lambda one: -one.offset)
        yield from (one for one in ordered if one.offset >= self.until[one.place])


def counted(
    found: Iterable[Deviation], limit: int
) -> tuple[Counter[Kind | Other], list[Deviation]]:
    """How many there are of each kind, and the first ones of each that can be told."""
    counts: Counter[Kind | Other] = Counter()
    kept: list[Deviation] = []
    for one in found:
        if isinstance(one.kind, Kind) and counts[one.kind] < limit:
            kept.append(one)
        counts[one.kind] += 1
    return counts, kept
