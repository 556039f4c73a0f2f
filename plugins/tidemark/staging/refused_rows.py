"""Find the rows that the target refuses, by halving, inside the publish.

Postgres numbers the records by their coordinates, and they go in slice by slice. A slice that the
target refuses is rolled back and halved, down to a single record. If that is refused, none of its
rows goes in: a record becomes either rows or a dead letter. Rows that went in stay, so of two rows
that exclude each other the first wins, wherever the slices are cut. Refused records are tried again
as long as that inserts more: a row may refer to one that came later.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import TargetRefused
from tidemark.model.batch import Batch, Moved, Staging
from tidemark.staging.column import Column
from tidemark.staging.move import insert_rows, move_rows, of_winners
from tidemark.staging.refusal import guard, is_refusal
from tidemark.staging.refused_records import Refused, write_letters
from tidemark.staging.target import Target

SEARCH_SECONDS = 300.0
"""Limit of the search in one batch: it holds the region lock, others wait up to lock_timeout."""

_PLACE = sql.SQL("""
CREATE UNLOGGED TABLE {places} AS
SELECT dense_rank() OVER (ORDER BY kafka_topic COLLATE "C", kafka_partition, kafka_offset) AS place,
       ctid AS at
FROM {rows} AS staged WHERE {chosen};
CREATE INDEX ON {places} (place);
ANALYZE {places};
SELECT coalesce(max(place), 0) FROM {places}
""")
_AT = sql.SQL("staged.ctid = ANY (ARRAY(SELECT at FROM {places} WHERE place {which}))")
_FROM_TO = sql.SQL("BETWEEN {} AND {}")
_ANY = sql.SQL("= ANY ({}::bigint[])")


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
        staging, seq = self._staging, self.batch.seq
        try:
            with _savepoint(self.cursor):
                return Moved(
                    move_rows(self.cursor, staging, self.target, self.columns, seq, self.winners)
                )
        except _SliceRefused:
            rows, refused = self._search(room)
        counts = write_letters(self.cursor, self.batch, self.target, self._places, refused)
        self.cursor.execute(sql.SQL("DROP TABLE {}").format(self._places))
        return Moved(rows, counts.rows, len(refused), counts.letters)

    def _search(self, room: int | None) -> tuple[int, list[Refused]]:
        """Try the refused records again, pass after pass, until a pass inserts none of them."""
        until = time.monotonic() + SEARCH_SECONDS
        self.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        moved, refused = self._halve(_halves(self._place_records()), room, until)
        while refused and (room is None or len(refused) <= room):
            known = len(refused)
            more, refused = self._halve([[one.place for one in refused]], room, until)
            moved += more
            if len(refused) == known:
                break
        return moved, refused

    def _halve(
        self, slices: list[Sequence[int]], room: int | None, until: float
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

    def _place_records(self) -> range:
        """Give each staged record its place, in a table that lives as long as the search."""
        chosen = of_winners(self.winners)
        self.cursor.execute(_PLACE.format(places=self._places, rows=self._rows, chosen=chosen))
        return range(1, (self.cursor.fetchone() or (0,))[0] + 1)

    def _insert(self, places: Sequence[int]) -> int:
        if isinstance(places, range):
            which = _FROM_TO.format(sql.Literal(places[0]), sql.Literal(places[-1]))
        else:
            which = _ANY.format(sql.Literal(list(places)))
        chosen = _AT.format(places=self._places, which=which)
        staging, seq = self._staging, self.batch.seq
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
    def _places(self) -> sql.Identifier:
        return sql.Identifier(
            self.batch.staging.schema, f"{self.batch.region}_{self.batch.seq}_places"
        )

    @property
    def _rows(self) -> sql.Identifier:
        return sql.Identifier(self._staging.schema, self._staging.rows)

    @property
    def _staging(self) -> Staging:
        return self.batch.staging.of_target(self.target.name)


def _halves(places: Sequence[int]) -> list[Sequence[int]]:
    """Both halves, the later one first: they are taken from the end."""
    middle = len(places) // 2
    return [half for half in (places[middle:], places[:middle]) if half]


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
