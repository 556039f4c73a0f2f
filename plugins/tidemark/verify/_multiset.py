"""Two multisets of rows in Postgres: how many rows differ, and the first of them named."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2 import sql

from tidemark.postgres.session import Cursor
from tidemark.verify.report import Difference, Kind

FIRST = 10
"""Differences that are shown for each batch."""
SAMPLE = 200
"""Differences that are looked at one by one, of either side."""
_SHOWN_CHARS = 60

Row = dict[str, Any]

_DIFFERENCE = sql.SQL("""
WITH difference AS (({left}) EXCEPT ALL ({right}))
SELECT count(*) OVER (), to_jsonb(difference.*)::text AS row_text
FROM difference ORDER BY {order} LIMIT {sample}
""")
_AS_MANY = sql.SQL("""
SELECT (SELECT count(*) FROM ({left}) AS one) = (SELECT count(*) FROM ({right}) AS other)
""")
_AMONG = sql.SQL("""
WITH difference AS ((({left}) EXCEPT ALL ({right})) INTERSECT ({right}))
SELECT to_jsonb(difference.*)::text AS row_text FROM difference ORDER BY {order} LIMIT {sample}
""")
_OF_ONE_RECORD = sql.SQL("""
WITH missing AS (({left}) EXCEPT ALL ({right})), surplus AS (({right}) EXCEPT ALL ({left}))
SELECT coalesce(sum(least(m.rows, s.rows)), 0)::bigint
FROM (SELECT {names}, count(*) AS rows FROM missing GROUP BY {names}) AS m
JOIN (SELECT {names}, count(*) AS rows FROM surplus GROUP BY {names}) AS s USING ({names})
""")


@dataclass(frozen=True, slots=True)
class Multisets:
    """The expected rows and the rows found: two SELECTs of the same columns.

    Their values are literals: if there are parameters, psycopg2 reads a % in a name as a
    placeholder.
    """

    what: str
    expected: sql.Composable
    found: sql.Composable
    coordinates: tuple[str, str, str] | None
    """The columns of topic, partition and offset, if the rows have them."""

    def differences(
        self, cursor: Cursor, seq: int, *, is_whole: bool
    ) -> tuple[int, tuple[Difference, ...]]:
        """How many rows are missing or surplus, and the first ones by name.

        If the expected rows are not complete (records were compacted away), a surplus row proves
        nothing: only missing rows count.
        """
        missing, absent = self._without(cursor, self.expected, self.found)
        if not missing and (not is_whole or self._are_as_many(cursor)):
            return 0, ()  # the same number of rows and none missing: none is surplus
        surplus, extra = self._without(cursor, self.found, self.expected)
        doubled = self._doubled(cursor) if extra else []
        named = [*self._named(seq, absent, extra, doubled)]
        if not is_whole:
            named = [one for one in named if one.kind in (Kind.lost, Kind.altered)]
            return missing, tuple(named[:FIRST])
        # an altered row counts as missing and as surplus, but is one fault
        altered = sum(one.kind is Kind.altered for one in named)
        if self.coordinates and max(missing, surplus) > SAMPLE:
            altered = self._altered(cursor)
        return missing + surplus - altered, tuple(named[:FIRST])

    def differences_but(
        self, cursor: Cursor, seq: int, purged: int
    ) -> tuple[int, tuple[Difference, ...]]:
        """The same, where so many of the expected rows were purged, nobody knows which."""
        missing, absent = self._without(cursor, self.expected, self.found)
        surplus, extra = self._without(cursor, self.found, self.expected)
        gone = missing - surplus
        named = [one for one in self._named(seq, absent, extra, []) if one.kind is not Kind.lost]
        if gone != purged:
            text = f"{gone} are not there, and {purged} were purged"
            named.insert(
                0, Difference(kind=Kind.miscounted, what=self.what, seq=seq, where="", detail=text)
            )
        return surplus + abs(gone - purged), tuple(named[:FIRST])

    def _without(
        self, cursor: Cursor, left: sql.Composable, right: sql.Composable
    ) -> tuple[int, list[Row]]:
        cursor.execute(_DIFFERENCE.format(left=left, right=right, **self._cut))
        rows = cursor.fetchall()
        return (rows[0][0] if rows else 0), [row_of(text) for _, text in rows]

    def _are_as_many(self, cursor: Cursor) -> bool:
        cursor.execute(_AS_MANY.format(left=self.expected, right=self.found))
        return bool((cursor.fetchone() or (False,))[0])

    def _doubled(self, cursor: Cursor) -> list[Row]:
        """Expected rows that are there too often."""
        cursor.execute(_AMONG.format(left=self.found, right=self.expected, **self._cut))
        return [row_of(text) for (text,) in cursor.fetchall()]

    def _altered(self, cursor: Cursor) -> int:
        """Missing rows with a surplus one of the same record."""
        names = sql.SQL(", ").join(map(sql.Identifier, self.coordinates or ()))
        cursor.execute(_OF_ONE_RECORD.format(left=self.expected, right=self.found, names=names))
        return int((cursor.fetchone() or (0,))[0])

    @property
    def _cut(self) -> dict[str, sql.Composable]:
        names = self.coordinates or ("row_text",)
        return {
            "order": sql.SQL(", ").join(map(sql.Identifier, names)),
            "sample": sql.Literal(SAMPLE),
        }

    def _named(
        self, seq: int, absent: list[Row], extra: list[Row], doubled: list[Row]
    ) -> Iterator[Difference]:
        lost = list(absent)
        for row in extra:
            if row in doubled:
                yield self._difference(Kind.doubled, seq, row, shown(row))
            elif (original := self._original(row, lost)) is not None:
                lost.remove(original)
                yield self._difference(Kind.altered, seq, original, changes(original, row))
            else:
                yield self._difference(Kind.foreign, seq, row, shown(row))
        for row in lost:
            yield self._difference(Kind.lost, seq, row, shown(row))

    def _original(self, row: Row, lost: Sequence[Row]) -> Row | None:
        """The lost row that this row was: the one of the same record, or the most similar one."""
        if self.coordinates:
            same = [one for one in lost if all(one[c] == row[c] for c in self.coordinates)]
            if same:
                return same[0]
        alike = [(sum(one[name] == row[name] for name in row), one) for one in lost]
        most, nearest = max(alike, key=lambda pair: pair[0], default=(0, None))
        needed = len(row) - 1 if self.coordinates else len(row) // 2 + 1
        return nearest if most >= max(needed, 1) else None

    def _difference(self, kind: Kind, seq: int, row: Row, detail: str) -> Difference:
        where = ""
        if self.coordinates:
            topic, partition, offset = (row[name] for name in self.coordinates)
            where = f"{topic}[{partition}]@{offset}"
        return Difference(kind=kind, what=self.what, seq=seq, where=where, detail=detail)


def row_of(text: str) -> Row:
    row: Row = json.loads(text, parse_float=str)
    return row


def shown(row: Row) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in row.items() if value is not None)


def changes(original: Row, row: Row) -> str:
    changed = [name for name in original if original[name] != row[name]]
    return "; ".join(
        f"{name}: Kafka {_value(original[name])}, here {_value(row[name])}" for name in changed
    )


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
