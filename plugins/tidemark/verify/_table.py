"""The table of another tool, and the rows that it should have, in the same columns and types.

Nothing is written, not even a temporary table: rows that should be there travel as texts in a
SELECT, which casts them to the table's types. Both sides are hashed by the same expressions, of
values that are spelled alike where they are equal: numbers without their scale, JSON by its values.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from tidemark.model.offsets import TopicPartition
from tidemark.model.upsert import Upsert
from tidemark.postgres.fate import Fate, fate
from tidemark.postgres.session import Cursor
from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import Column
from tidemark.staging.move import staged_value
from tidemark.staging.target import Target
from tidemark.staging.texts import array_literal
from tidemark.staging.upsert_sql import commas
from tidemark.verify._deviations import NO_ROW
from tidemark.verify._fingerprints import Fingerprints
from tidemark.verify._rows import comparable
from tidemark.verify.errors import AuditTypesDiffer
from tidemark.verify.report import ToldBy

PLACE = Column("tidemark place", pa.int32(), "integer")
OFFSET = Column("tidemark offset", pa.int64(), "bigint")
"""Of rows that should be there: the number of their partition, and their offset."""

Coordinates = tuple[str, str, str]


class Range(NamedTuple):
    """What is judged of a partition."""

    start: int
    """Records from here on: earlier ones Kafka no longer holds, or nobody asked for."""
    until: int
    """Records below it must be in the table."""
    end: int
    """Records below it may be there: the end of what is committed, as it was after the look."""
    is_cut: bool = False
    """Whether rows from the end on are not judged: transactions are open there, or nobody asked."""


Ranges = Mapping[TopicPartition, Range]

_HASH = sql.SQL("substring(sha256(textsend(ROW({})::text)) FROM 1 FOR 16)")
_SELECT = sql.SQL("SELECT {} FROM {source} WHERE {where}")
_COPY = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)")
_SOURCE = sql.SQL(
    "(SELECT {values} FROM"
    " (SELECT {typed} FROM unnest({arrays}) AS texts ({names})) AS staged) AS t"
)
_DELETES = sql.SQL("coalesce({}, false)::int")
_NONE = sql.SQL("0")
# a row without coordinates is judged: no record has them
_JUDGED = sql.SQL("""
coalesce({topic}::text = ANY ({topics}::text[]), true) AND NOT EXISTS (
    SELECT FROM unnest({topic_of}::text[], {partition_of}::bigint[], {starts}::bigint[],
                       {ends}::bigint[]) AS range (topic, partition, first, last)
    WHERE range.topic = {topic}::text AND range.partition = {partition}::bigint
      AND ({offset}::bigint < range.first OR {offset}::bigint >= range.last))
""")
_OTHERS = sql.SQL("count(*) FILTER (WHERE {topic}::text <> ALL ({topics}::text[]))")
_UNJUDGED = sql.SQL("SELECT count(*), {others} FROM {source} WHERE NOT ({judged})")
_LAST = sql.SQL("""
SELECT {topic}::text, {partition}::bigint, max({offset}::bigint) + 1 FROM {source}
WHERE {topic} IS NOT NULL AND {partition} IS NOT NULL AND {offset} IS NOT NULL GROUP BY 1, 2
""")
# equal for equal documents: the text without zeros that end fractions, and a hash that tells such a
# zero of a string from one of a number
_JSON = sql.SQL(r"""
regexp_replace(regexp_replace({0}::text, '(\.[0-9]*?)0+(?![0-9])', '\1', 'g'),
               '\.(?![0-9])', '', 'g'), jsonb_hash_extended({0}, 0)
""")
_NUMBER = sql.SQL("trim_scale({})")
_FLOAT = sql.SQL("nullif({0}, 0), {0} = 0")  # -0 is 0
_TEXT = sql.SQL("{}::text")
_IN_JSON = sql.SQL("(SELECT to_jsonb(of.*) FROM (SELECT {}) AS of)::text")

Texts = Iterator[tuple[bytes, str]]
"""The fingerprint of a row's values, and the row as JSON."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What is compared of a table, and how that tells which record a row is of."""

    target: Target
    columns: Sequence[Column]
    """Of the rows that should be there, by the table's names."""
    own: Mapping[str, TableColumn]
    """Of the table."""
    compared: Sequence[str]
    coordinates: Coordinates | None = None
    upsert: Upsert | None = None

    @property
    def told_by(self) -> ToldBy:
        """What tells rows apart."""
        if self.upsert:
            return ToldBy.key
        return ToldBy.coordinates if self.coordinates else ToldBy.row

    @property
    def has_coordinates(self) -> bool:
        """Whether rows are told by their records' coordinates."""
        return bool(self.coordinates) and not self.upsert

    @property
    def identity(self) -> Sequence[str]:
        """The columns that tell rows apart: coordinates, a key, or all."""
        if self.upsert:
            return self.upsert.key
        return self.coordinates or self.compared

    def refuse_other_types(self, cursor: Cursor, none: pa.RecordBatch) -> None:
        """Refuse rows of which no value becomes one of the table's; there are `none` of them.

        Raises:
            SchemaMismatch: names the types.
        """
        try:
            with self._trying(cursor):
                source = self._source(none, self.compared)
                select = _SELECT.format(commas(self._hashes), source=source, where=self._keyed)
                cursor.execute(select)
        except psycopg2.ProgrammingError as error:
            if fate(error) is not Fate.schema:
                raise
            cause = error.diag.message_primary or ""
            raise AuditTypesDiffer(target=str(self.target), cause=cause) from error

    def take_found(self, cursor: Cursor, ranges: Ranges, side: Fingerprints) -> None:
        """The table's rows that are judged."""
        select = _SELECT.format(
            commas(self._hashes), source=self._table, where=self._judged(ranges)
        )
        cursor.copy_expert(_COPY.format(select), side)
        side.end()

    def take_expected(self, cursor: Cursor, rows: pa.RecordBatch, side: Fingerprints) -> list[int]:
        """Rows that should be there; the numbers of those that the table can't hold.

        Of these the identity is taken, if some columns tell it.
        """
        unfit, slices = [], [(0, rows.num_rows)]
        while slices:
            start, size = slices.pop()
            if self._is_taken(cursor, rows.slice(start, size), side):
                continue
            if size > 1:
                half = size // 2
                slices += [(start + half, size - half), (start, half)]
            else:
                unfit.append(start)
                if self.identity != self.compared:
                    self._is_taken(cursor, rows.slice(start, size), side, is_bare=True)
        return unfit

    def texts(self, cursor: Cursor, rows: pa.RecordBatch) -> Texts:
        """Rows that should be there, without those that the table can't hold."""
        columns, found = commas([self._hashes[1], self._json]), list[tuple[bytes, str]]()
        with self._trying(cursor) as tried:
            source = self._source(rows, self.compared)
            cursor.execute(_SELECT.format(columns, source=source, where=self._keyed))
            found = cursor.fetchall()
        yield from ((bytes(row), text) for row, text in found)
        if not tried and rows.num_rows > 1:
            half = rows.num_rows // 2
            yield from self.texts(cursor, rows.slice(0, half))
            yield from self.texts(cursor, rows.slice(half))

    def texts_found(self, cursor: Cursor, identities: Collection[bytes]) -> Texts:
        """Rows of the table that have one of these identities; of rows that are equal, one."""
        wanted = sql.Literal([rf"\x{one.hex()}" for one in identities])
        where = sql.SQL("{} = ANY ({}::bytea[])").format(self._hashes[0], wanted)
        columns = sql.SQL("DISTINCT {}, {}").format(self._hashes[1], self._json)
        cursor.execute(_SELECT.format(columns, source=self._table, where=where))
        yield from ((bytes(row), text) for row, text in cursor.fetchall())

    def last(self, cursor: Cursor) -> dict[TopicPartition, int]:
        """The offset after the last row of each partition."""
        cursor.execute(_LAST.format(source=self._table, **self._places))
        return {TopicPartition(topic, number): at for topic, number, at in cursor.fetchall()}

    def unjudged(self, cursor: Cursor, ranges: Ranges) -> tuple[int, int]:
        """How many rows are not judged, and how many of them are of other topics."""
        topics = sql.Literal(sorted({one.topic for one in ranges}))
        others = _OTHERS.format(topics=topics, **self._places) if self.has_coordinates else _NONE
        cursor.execute(
            _UNJUDGED.format(others=others, source=self._table, judged=self._judged(ranges))
        )
        rows, of_others = cursor.fetchone() or (0, 0)
        return rows, of_others

    @property
    def _table(self) -> sql.Composable:
        return sql.SQL("{} AS t").format(self.target.identifier)

    @property
    def _hashes(self) -> list[sql.Composable]:
        return [self._hash(self.identity), self._hash(self.compared)]

    def _hash(self, names: Sequence[str]) -> sql.Composable:
        return _HASH.format(commas(_spelled(self.own[name]) for name in names))

    @property
    def _json(self) -> sql.Composable:
        return _IN_JSON.format(commas(comparable(self.own[name]) for name in self.compared))

    @property
    def _places(self) -> dict[str, sql.Composable]:
        names = map(_of_row, self.coordinates or ("", "", ""))
        return dict(zip(("topic", "partition", "offset"), names, strict=True))

    @property
    def _keyed(self) -> sql.Composable:
        """Whether a row has a key: one that has a null in it has none."""
        key = self.upsert.key if self.upsert else ()
        return sql.SQL(" AND ").join(
            [sql.SQL("true"), *(sql.SQL("{} IS NOT NULL").format(_of_row(one)) for one in key)]
        )

    def _judged(self, ranges: Ranges) -> sql.Composable:
        if not self.has_coordinates:
            return self._keyed
        return _JUDGED.format(
            topics=sql.Literal(sorted({one.topic for one in ranges})),
            topic_of=sql.Literal([one.topic for one in ranges]),
            partition_of=sql.Literal([one.partition for one in ranges]),
            starts=sql.Literal([one.start for one in ranges.values()]),
            ends=sql.Literal([one.end if one.is_cut else None for one in ranges.values()]),
            **self._places,
        )

    def _is_taken(
        self, cursor: Cursor, rows: pa.RecordBatch, side: Fingerprints, *, is_bare: bool = False
    ) -> bool:
        """Whether the table can hold the rows; if so they are in the side."""
        taken = BytesIO()
        with self._trying(cursor) as tried:
            row = sql.Literal(NO_ROW) if is_bare else self._hashes[1]
            deletes = _DELETES.format(_of_row(self._deleted)) if self._deleted else _NONE
            columns = [self._hashes[0], row, _of_row(PLACE.name), _of_row(OFFSET.name), deletes]
            source = self._source(rows, self.identity if is_bare else self.compared)
            select = _SELECT.format(commas(columns), source=source, where=self._keyed)
            cursor.copy_expert(_COPY.format(select), taken)
        if tried:
            side.write(taken.getvalue())
            side.end()
        return bool(tried)

    @contextmanager
    def _trying(self, cursor: Cursor) -> Iterator[list[bool]]:
        """What the block tries is true at last, unless values stood against it."""
        tried: list[bool] = []
        cursor.execute("SAVEPOINT audit")
        try:
            yield tried
            tried.append(True)
        except psycopg2.Error as error:
            if fate(error) is not Fate.row:
                raise
        except (OverflowError, ValueError):  # a NUL, or a date in a document
            pass
        cursor.execute("RELEASE SAVEPOINT audit" if tried else "ROLLBACK TO SAVEPOINT audit")

    @property
    def _deleted(self) -> str | None:
        return self.upsert.deleted if self.upsert else None

    def _source(self, rows: pa.RecordBatch, names: Sequence[str]) -> sql.Composable:
        """The rows as a table, in the types of the audited one."""
        used = {*names, *self.identity, self._deleted}
        columns = [*(one for one in self.columns if one.name in used), PLACE, OFFSET]
        arrays = [array_literal(rows.column(one.name), one) for one in columns]
        if any("\0" in one for one in arrays):
            raise ValueError("no text of Postgres holds a NUL")
        return _SOURCE.format(
            values=commas(map(self._value, columns)),
            typed=commas(map(_typed, columns)),
            arrays=commas(sql.SQL("{}::text[]").format(sql.Literal(one)) for one in arrays),
            names=commas(sql.Identifier(one.staged_name) for one in columns),
        )

    def _value(self, column: Column) -> sql.Composable:
        own = self.own.get(column.name)
        kind = _without_length(own.type_name) if own else column.postgres_type
        return sql.SQL("({})::{} AS {}").format(
            staged_value(column), sql.SQL(kind), sql.Identifier(column.name)
        )


def _of_row(name: str) -> sql.Composable:
    return sql.Identifier("t", name)


def _typed(column: Column) -> sql.Composable:
    name = sql.Identifier("texts", column.staged_name)
    return sql.SQL("{}::{} AS {}").format(
        name, sql.SQL(column.staged_type), sql.Identifier(column.staged_name)
    )


def _without_length(type_name: str) -> str:
    """A cast to a text of some length would cut it, where an INSERT is refused."""
    bare = re.sub(r"^(character.*)\(\d+\)", r"\1", type_name)
    return re.sub("^character(?! varying)", "bpchar", bare)


def _spelled(own: TableColumn) -> sql.Composable:
    """The column's value, spelled alike where it is equal."""
    name, kind = _of_row(own.name), own.type_name
    if kind in ("json", "jsonb"):
        return _JSON.format(sql.SQL("{}::jsonb").format(name))
    if re.fullmatch(r"(numeric|real|double precision).*\[\]", kind):
        return _JSON.format(sql.SQL("to_jsonb({})").format(name))
    if kind.startswith("numeric"):
        return _NUMBER.format(name)
    if kind in ("real", "double precision"):
        return _FLOAT.format(name)
    return _TEXT.format(name)
