"""Find the rows that targets refuse, by halving, inside the publish.

Postgres numbers the records by their coordinates, and they go in slice by slice, into all targets.
A slice that a target refuses is rolled back and halved, down to a single record. If that is
refused, none of its rows goes in: a record becomes either rows or a dead letter. Rows that went in
stay, so of two rows that exclude each other the first wins, wherever the slices are cut. Refused
records are tried again as long as that inserts more: a row may refer to one that came later.

Where what went in depends on what is left out, as of an upsert, all is rolled back and begins anew
without the refused records, until none is refused. A row that is refused because of other rows is
tried again with what these become: in each round those are left out that rest on the fewest.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch, Moved
from tidemark.staging.errors import RefusedRowsNotAllFound, RowsNotPrepared
from tidemark.staging.moving import EVERYTHING, Moving
from tidemark.staging.refused_places import Places, Slice, halves
from tidemark.staging.refused_records import Refused, RefusedRecords
from tidemark.staging.refused_slice import Refusal, SliceRefused, savepoint

SEARCH_SECONDS = 300.0
"""Limit of the search in one batch: it holds the region lock, others wait up to lock_timeout."""


@dataclass(slots=True)
class Search:
    """Moves one batch into targets that may refuse some of its rows."""

    cursor: Cursor
    batch: Batch
    movings: Sequence[Moving]
    """Parents first."""
    winners: Sequence[tuple[int, int]]
    room: int | None
    """The search ends early if more records are refused; then the caller must refuse the batch."""
    letter_bytes: int | None = None
    """Kept of the rows of a refused record, as JSON; None keeps them whole."""
    _found: int = 0
    _written: Counter[str] = field(default_factory=Counter)
    _until: float = 0.0

    def move(self) -> dict[str, Moved]:
        """Move the rows that the targets accept; write dead letters for the other records.

        Tries the whole batch first.

        Raises:
            TargetRefused: the search takes too long, or a refused row names no record of the batch.
        """
        self._until = time.monotonic() + SEARCH_SECONDS
        names = [moving.target.name for moving in self.movings]
        records = RefusedRecords(self.cursor, self.batch, names, self.winners)
        wanted: sql.Composable = EVERYTHING
        while found := self._round(wanted):
            records.note(found)
            wanted = records.wanted
            if self._is_final or self._is_full(0):
                break
        moved = {one.target.name: self._finished(records, one) for one in self.movings}
        if not self._found:
            return moved
        refused, written = records.count_records(), records.write_letters(self.letter_bytes)
        return {
            name: replace(
                one, refused_records=refused.get(name, 0), dead_letters=written.get(name, 0)
            )
            for name, one in moved.items()
        }

    def _round(self, wanted: sql.Composable) -> list[Refused]:
        """Move what is wanted; the records of which a row is refused.

        Nothing stands if what went in depends on them.
        """
        self._written.clear()
        self.cursor.execute("SAVEPOINT round")
        refused = self._moved(wanted)
        self._found += len(refused)
        if refused and not self._is_final:
            self.cursor.execute("ROLLBACK TO SAVEPOINT round")
        self.cursor.execute("RELEASE SAVEPOINT round")
        return refused

    def _moved(self, wanted: sql.Composable) -> list[Refused]:
        for moving in self.movings:
            try:
                with savepoint(self.cursor, [moving]):
                    moving.prepare(wanted)
            except SliceRefused as slice_refused:
                return self._unprepared(moving, slice_refused.refusal)
        try:
            self._apply(self.movings)
        except SliceRefused:
            return self._search(self.movings)
        return []

    def _unprepared(self, moving: Moving, refusal: Refusal) -> list[Refused]:
        """The records whose rows can't be prepared, one by one."""
        trial = moving.trial()
        if found := self._search([trial]):
            return [one.named(trial.target, moving.target) for one in found]
        raise RowsNotPrepared(target=str(moving.target), guard=refusal.detail)

    def _search(self, movings: Sequence[Moving]) -> list[Refused]:
        """Try the refused records again, pass after pass, until a pass inserts none of them."""
        places = Places.of(self.cursor, self.batch, movings)
        refused = self._halve(movings, places, halves(range(1, places.count + 1)))
        while refused and not self._is_full(len(refused)):
            known = len(refused)
            refused = self._halve(movings, places, [list(refused)])
            if len(refused) == known:
                break
        found = places.records(refused if self._is_final else _firmest(refused))
        places.drop()
        return found

    def _halve(
        self, movings: Sequence[Moving], places: Places, slices: list[Slice]
    ) -> dict[int, Refusal]:
        refused = dict[int, Refusal]()
        while slices and not self._is_full(len(refused)):
            self._refuse_late(len(refused))
            some = slices.pop()
            try:
                self._apply(movings, places, some)
            except SliceRefused as slice_refused:
                if len(some) == 1:
                    refused[some[0]] = slice_refused.refusal
                else:
                    slices += halves(some)
        return refused

    def _apply(
        self, movings: Sequence[Moving], places: Places | None = None, some: Slice = ()
    ) -> None:
        """Move the records at some places, or all, into all targets; or into none.

        Raises:
            SliceRefused: a target refuses one of their rows.
        """
        written = dict[str, int]()
        with savepoint(self.cursor, movings) as step:
            self.cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            for step.moving in movings:
                name = step.moving.target.name
                written[name] = step.moving.apply(places.at(name, some) if places else None)
            self.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self._written.update(written)

    def _finished(self, records: RefusedRecords, moving: Moving) -> Moved:
        name = moving.target.name
        if self._is_full(0):  # nothing of it will stand
            return Moved(0)
        moved = moving.finish(self._written[name])
        return replace(moved, refused_rows=records.count_rows(name)) if self._found else moved

    @property
    def _is_final(self) -> bool:
        return all(moving.is_final for moving in self.movings)

    def _is_full(self, more: int) -> bool:
        return self.room is not None and self._found + more > self.room

    def _refuse_late(self, more: int) -> None:
        if time.monotonic() > self._until:
            raise RefusedRowsNotAllFound(
                targets=tuple(str(moving.target) for moving in self.movings),
                found=self._found + more,
                seconds=SEARCH_SECONDS,
            )


def _firmest(refused: Mapping[int, Refusal]) -> Mapping[int, Refusal]:
    """Those that depend least on other rows; of the others it is not known yet."""
    least = min((one.rests_on for one in refused.values()), default=0)
    return {place: one for place, one in refused.items() if one.rests_on == least}
