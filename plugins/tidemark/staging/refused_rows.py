"""Find the rows that the target refuses, by halving, inside the publish.

Records are inserted in the order of their coordinates, in slices. A slice that the target refuses
is rolled back and halved, down to a single record. If that is refused, none of its rows goes in:
a record becomes either rows or a dead letter. Rows that went in stay, so of two rows that exclude
each other the first wins, wherever the slices are cut. Refused records are tried again as long as
that inserts more: a row may refer to one that came later.
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

from tidemark.errors import TargetRefused
from tidemark.model.batch import Batch, Moved
from tidemark.staging.columns import Column
from tidemark.staging.move import insert_rows, move_rows, of_winners
from tidemark.staging.refusal import guard, is_refusal
from tidemark.staging.refused_records import Record, Refused, write_letters
from tidemark.staging.target import Target

SEARCH_SECONDS = 300.0
"""Limit of the search in one batch: it holds the region lock, others wait up to lock_timeout."""

_RECORDS = sql.SQL("""
SELECT kafka_topic, kafka_partition, kafka_offset, staged.ctid::text
FROM {rows} AS staged WHERE {chosen} ORDER BY kafka_topic COLLATE "C", 2, 3
""")


class _SliceRefused(Exception):
    """The target refuses a row of a slice; the slice was rolled back."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Search:
    """Moves one batch into a target that may refuse some of its rows."""

    cursor: Cursor
    batch: Batch
    target: Target
    columns: Sequence[Column]
    winners: Sequence[tuple[int, int]]

    def move(self, room: int | None) -> Moved:
        """Move the rows that the target accepts; write dead letters for the other records.

        Tries the whole batch first. The search ends early if more than `room` records are
        refused; then the caller must refuse the batch.

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
            rows, refused = self._search(room)
        letters = write_letters(self.cursor, self.batch, self.target, refused) if refused else 0
        return Moved(rows, sum(len(one.record.ctids) for one in refused), len(refused), letters)

    def _search(self, room: int | None) -> tuple[int, list[Refused]]:
        """Try the refused records again, pass after pass, until a pass inserts none of them."""
        until = time.monotonic() + SEARCH_SECONDS
        self.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        moved, refused = self._halve(_halves(self._records()), room, until)
        while refused and (room is None or len(refused) <= room):
            known = len(refused)
            more, refused = self._halve([[one.record for one in refused]], room, until)
            moved += more
            if len(refused) == known:
                break
        return moved, refused

    def _halve(
        self, slices: list[Sequence[Record]], room: int | None, until: float
    ) -> tuple[int, list[Refused]]:
        moved, refused = 0, list[Refused]()
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
        """The staged records in the order of their coordinates."""
        statement = _RECORDS.format(rows=self._rows, chosen=of_winners(self.winners))
        self.cursor.execute(statement)
        by_record = groupby(self.cursor.fetchall(), key=itemgetter(0, 1, 2))
        return [
            Record(topic, partition, offset, [row[3] for row in rows])
            for (topic, partition, offset), rows in by_record
        ]

    def _insert(self, records: Sequence[Record]) -> int:
        ctids = ",".join(f'"{ctid}"' for record in records for ctid in record.ctids)
        # one literal: Postgres needs seconds to plan an array of many
        chosen = sql.SQL("staged.ctid = ANY ({}::tid[])").format(sql.Literal(f"{{{ctids}}}"))
        staging, seq = self.batch.staging, self.batch.seq
        return insert_rows(self.cursor, staging, self.target, self.columns, seq, chosen)

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
    """Both halves, the later one first: slices are popped from the end."""
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
