"""Judge of rows by name: their records, and their values as Kafka and the table have them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.model.offsets import TopicPartition
from tidemark.verify._deviations import Deviation, Version
from tidemark.verify._multiset import Row, changes, row_of, shown
from tidemark.verify._table import Coordinates
from tidemark.verify.report import Difference, Kind

Texts = Mapping[bytes, str]
"""Rows as JSON, by the fingerprints of all their values."""

UNFIT = "the table can't hold the row of this record"


@dataclass(frozen=True, slots=True)
class Names:
    """What is needed to name them."""

    places: Sequence[TopicPartition]
    coordinates: Coordinates | None
    """If these tell which record a row is of."""
    expected: Texts
    found: Texts

    def difference(self, one: Deviation) -> Difference:
        """One of them."""
        kind = Kind(one.kind)
        where = self._where(one.wanted) if one.wanted else self._own_place(one)
        return Difference(kind=kind, what="row", seq=None, where=where, detail=self._detail(one))

    def _detail(self, one: Deviation) -> str:
        there = _row(self.found, one.row)
        wanted = _row(self.expected, one.wanted and one.wanted.row)
        if one.kind is Kind.lost:
            return shown(wanted) if wanted else UNFIT
        if one.kind is Kind.stale and one.wanted and one.wanted.deletes:
            return f"this record deletes it; here {shown(there)}"
        if one.kind in (Kind.altered, Kind.stale):
            text = changes(wanted, there) if wanted else f"{UNFIT}; here {shown(there)}"
            older = f"as {self._where(one.older)} had it; " if one.older else ""
            return older + text
        return shown(there)

    def _where(self, version: Version) -> str:
        return f"{self.places[version.place]}@{version.offset}"

    def _own_place(self, one: Deviation) -> str:
        """Where a row of no record says that it comes from."""
        there = _row(self.found, one.row)
        if not self.coordinates or not there:
            return ""
        topic, partition, offset = (there[name] for name in self.coordinates)
        return f"{topic}[{partition}]@{offset}"


def _row(texts: Texts, row: bytes | None) -> Row:
    text = texts.get(row) if row else None
    return row_of(text) if text else {}


def paired(deviations: Sequence[Deviation], names: Names) -> Iterator[Deviation]:
    """The same; a lost row and a foreign one that differ in one column are one altered row.

    That is all that can be told where nothing tells which record a row is of.
    """
    lost: dict[tuple[object, ...], list[Deviation]] = {}
    taken: set[int] = set()
    for one in deviations:
        if one.kind is Kind.lost and one.wanted:
            for key in _but_one(names.expected.get(one.wanted.row)):
                lost.setdefault(key, []).append(one)
    for one in deviations:
        if one.kind is not Kind.foreign or one.row is None:
            continue
        alike = (
            other
            for key in _but_one(names.found.get(one.row))
            for other in lost.get(key, ())
            if id(other) not in taken
        )
        if (other := next(alike, None)) is not None:
            taken |= {id(other), id(one)}
            yield replace(one, kind=Kind.altered, wanted=other.wanted)
    yield from (one for one in deviations if id(one) not in taken)


def _but_one(text: str | None) -> Iterator[tuple[object, ...]]:
    """The row without one of its columns, for each."""
    row = row_of(text) if text else {}
    for left_out in row if len(row) > 1 else ():
        yield left_out, *(repr(value) for name, value in row.items() if name != left_out)
