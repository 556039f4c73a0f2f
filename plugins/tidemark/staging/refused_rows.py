"""Rows that the target refuses: found by halving, inside the publish, and kept as dead letters.

Records are taken in the order of their coordinates, in slices. A slice that the target refuses is
rolled back and halved, until a single record is refused: all of its rows stay out, so that a
record is either rows or a dead letter. What went in before stands, so of two rows that exclude
each other the first stays, wherever the slices are cut.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import InvalidSettings, TargetRefused
from tidemark.model.batch import Batch, Moved
from tidemark.staging.columns import Column
from tidemark.staging.move import insert_rows, move_rows, of_winners
from tidemark.staging.refusal import guard, is_refusal
from tidemark.staging.target import Target

COORDINATES = {"kafka_topic": "text", "kafka_partition": "integer", "kafka_offset": "bigint"}
"""Columns that name a row's record, as Postgres holds them."""

REASON = "TARGET_REFUSED"
"""Of the dead letters made here."""

SEARCH_SECONDS = 300.0
"""For the search in one batch: others wait for the region lock, for up to lock_timeout."""

ROW = sql.SQL("(to_jsonb(staged) - ARRAY['member', 'attempt'])")
"""A staged row as a dead letter keeps it."""

_RECORDS = sql.SQL("""
SELECT kafka_topic, kafka_partition, kafka_offset, staged.ctid::text
FROM {rows} AS staged WHERE {chosen} ORDER BY kafka_topic COLLATE "C", 2, 3
""")
_LETTERS = sql.SQL("""
INSERT INTO tidemark.dead_letters
    (region, partition_id, topic, partition, "offset", seq, reason, detail, refused_rows)
SELECT s.region, s.partition_id, s.topic, s.partition, r."offset", s.seq, {reason}, r.detail,
       jsonb_agg({row} ORDER BY {row}::text)
FROM unnest({topics}::text[], {partitions}::int[], {offsets}::bigint[], {details}::text[],
            {ctids}::tid[]) AS r (topic, partition, "offset", detail, ctid)
JOIN tidemark.spans s ON s.region = {region} AND s.seq = {seq} AND s.topic = r.topic
    AND s.partition = r.partition AND r."offset" >= s.start_offset AND r."offset" < s.end_offset
JOIN {rows} AS staged ON staged.ctid = r.ctid
GROUP BY s.region, s.partition_id, s.topic, s.partition, r."offset", s.seq, r.detail
""")


@dataclass(frozen=True, slots=True)
class Record:
    """A record by its coordinates, with the places of its staged rows."""

    topic: str
    partition: int
    offset: int
    ctids: list[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """A record of which the target refuses a row, and what of the target does."""

    record: Record
    detail: str


class _SliceRefused(Exception):
    """The target refuses a row of a slice; nothing of the slice stands."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def missing_coordinates(columns: Sequence[Column]) -> list[str]:
    """Which of the columns that name a row's record are not there as they came."""
    types = {column.name: column.postgres_type for column in columns}
    return [name for name, kind in COORDINATES.items() if types.get(name) != kind]


def refuse_without_coordinates(columns: Sequence[Column]) -> None:
    """Raise InvalidSettings if a refused row could not name its record."""
    if missing := missing_coordinates(columns):
        raise InvalidSettings(
            f"target.on_refused: dead_letter needs the columns {', '.join(COORDINATES)}"
            f" unchanged; the transform drops or changes {', '.join(missing)}. Keep them, or set"
            " on_refused: stop"
        )


@dataclass(frozen=True, slots=True)
class Search:
    """The move of one batch into a target that may refuse rows of it."""

    cursor: Cursor
    batch: Batch
    target: Target
    columns: Sequence[Column]
    winners: Sequence[tuple[int, int]]

    def move(self, room: int | None) -> Moved:
        """Move what the target takes; the others' records are dead letters of the ledger.

        The whole is tried first. The search ends where more than `room` records are refused: the
        caller has to refuse the batch.

        Raises:
            TargetRefused: the search takes too long, or a refused row names no record of the batch.
        """
        staging, seq = self.batch.staging, self.batch.seq
        try:
            with _savepoint(self.cursor):
                return Moved(
                    move_rows(self.cursor, staging, self.target, self.columns, seq, self.winners)
                )
        except _SliceRefused:
            rows, refused = self._halve(room)
        letters = self._write_letters(refused) if refused else 0
        return Moved(rows, sum(len(one.record.ctids) for one in refused), len(refused), letters)

    def _halve(self, room: int | None) -> tuple[int, list[Refused]]:
        moved, refused = 0, list[Refused]()
        until = time.monotonic() + SEARCH_SECONDS
        self.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        slices = _halves(self._records())
        while slices and (room is None or len(refused) <= room):
            self._refuse_late(until, len(refused))
            some = slices.pop()
            try:
                with _savepoint(self.cursor):
                    moved += self._insert(some)
            except _SliceRefused as refusal:
                if len(some) == 1:
                    refused.append(Refused(some[0], refusal.detail))
                else:
                    slices += _halves(some)
        return moved, refused

    def _records(self) -> list[Record]:
        """The staged records in order."""
        statement = _RECORDS.format(rows=self._rows, chosen=of_winners(self.winners))
        self.cursor.execute(statement)
        by_record = groupby(self.cursor.fetchall(), key=itemgetter(0, 1, 2))
        return [
            Record(topic, partition, offset, [row[3] for row in rows])
            for (topic, partition, offset), rows in by_record
        ]

    def _insert(self, records: Sequence[Record]) -> int:
        ctids = ",".join(f'"{ctid}"' for record in records for ctid in record.ctids)
        # one literal: Postgres plans an array of many for seconds
        chosen = sql.SQL("staged.ctid = ANY ({}::tid[])").format(sql.Literal(f"{{{ctids}}}"))
        staging, seq = self.batch.staging, self.batch.seq
        return insert_rows(self.cursor, staging, self.target, self.columns, seq, chosen)

    def _write_letters(self, refused: Sequence[Refused]) -> int:
        """Write a dead letter for each; the rows stand there as the transform made them.

        The record as it came is not at hand: Kafka is not asked inside a transaction, and a second
        one after COMMIT could be lost. Its coordinates tell where it is.
        """
        each = [(one, ctid) for one in refused for ctid in one.record.ctids]
        self.cursor.execute(
            _LETTERS.format(
                rows=self._rows,
                row=ROW,
                reason=sql.Literal(REASON),
                region=sql.Literal(self.batch.region),
                seq=sql.Literal(self.batch.seq),
                topics=sql.Literal([one.record.topic for one, _ in each]),
                partitions=sql.Literal([one.record.partition for one, _ in each]),
                offsets=sql.Literal([one.record.offset for one, _ in each]),
                details=sql.Literal([one.detail for one, _ in each]),
                ctids=sql.Literal([ctid for _, ctid in each]),
            )
        )
        if self.cursor.rowcount != len(refused):
            raise TargetRefused(
                f"{self.target} refuses rows of the batch, first by {refused[0].detail}; they can't"
                f" become dead letters: {', '.join(COORDINATES)} of"
                f" {len(refused) - self.cursor.rowcount} of them are not those of a record of"
                " the batch. Nothing is published. Keep these columns unchanged in the transform,"
                " then run again"
            )
        return self.cursor.rowcount

    def _refuse_late(self, until: float, found: int) -> None:
        if time.monotonic() > until:
            raise TargetRefused(
                f"{self.target} refuses rows of the batch: {found} records were found in"
                f" {SEARCH_SECONDS:.0f} s and the search is not finished; nothing is published."
                " Correct the rows in the transform, change the table, or lower batch.max_records,"
                " then run again"
            )

    @property
    def _rows(self) -> sql.Identifier:
        return sql.Identifier(self.batch.staging.schema, self.batch.staging.rows)


def _halves(records: Sequence[Record]) -> list[Sequence[Record]]:
    """Both halves, the later one first: they are taken from the end."""
    middle = len(records) // 2
    return [half for half in (records[middle:], records[:middle]) if half]


@contextmanager
def _savepoint(cursor: Cursor) -> Iterator[None]:
    cursor.execute("SAVEPOINT slice")
    try:
        yield
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT slice; RELEASE SAVEPOINT slice")
        raise _SliceRefused(guard(error)) from None
    cursor.execute("RELEASE SAVEPOINT slice")
