"""The mover: what a publish uses to move staged rows and dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch, Contribution, Moved
from tidemark.model.upsert import Upsert
from tidemark.staging.column import Column
from tidemark.staging.keyed import ensure_keyed
from tidemark.staging.move import (
    count_dead_letters,
    count_rows,
    move_dead_letters,
    move_rows,
    refuse_kept_out,
)
from tidemark.staging.ports import Deciding
from tidemark.staging.refusal import naming_refusals
from tidemark.staging.refused_records import refuse_without_coordinates
from tidemark.staging.refused_rows import Search
from tidemark.staging.target import Target, ensure
from tidemark.staging.upsert import Upserting


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves a batch's staging into the target and the ledger, in the publishing transaction."""

    target: Target
    columns: Sequence[Column]
    refused_become_dead_letters: bool = False
    """Whether a row that the target refuses becomes a dead letter; else the batch is refused."""
    upsert: Upsert | None = None
    """How rows are upserted; None: every row is inserted."""

    def ensure_target(self, cursor: Cursor) -> bool:
        """The target takes these columns in this way; True if it was created, see `ensure`.

        Raises:
            InvalidSettings: the rows lack a column that the mode needs.
            Refused, SchemaMismatch: see `ensure` and `ensure_keyed`.
        """
        if self.upsert:
            return ensure_keyed(cursor, self.target, self.columns, self.upsert)
        if self.refused_become_dead_letters:
            refuse_without_coordinates(self.columns, "on_refused: dead_letter", "on_refused: stop")
        return ensure(cursor, self.target, self.columns)

    def count_staged(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> tuple[int, int]:
        """How many rows and dead letters of the contribution are in staging."""
        cursor, staging = transaction.cursor, batch.staging
        winners = [(winner.member, winner.attempt) for winner in contribution.winners]
        letters = count_dead_letters(cursor, staging, contribution.reads)
        return count_rows(cursor, staging, winners), letters

    def move_rows(self, transaction: Deciding, batch: Batch, room: int | None = None) -> Moved:
        """Insert or upsert the winners' rows under the batch's seq.

        Where refused rows become dead letters, at most `room` records may: with more, the search
        for them ends early and the caller must refuse the batch.

        Raises:
            TargetRefused: a constraint of the target refuses a row, a trigger keeps it out, or
                the region has published to another table.
        """
        cursor, staging, winners = transaction.cursor, batch.staging, transaction.winners(batch)
        moved = self._moved(cursor, batch, winners, room)
        transaction.keep_target(self.target.schema, self.target.table)
        is_whole = room is None or moved.refused_records <= room
        contributed = transaction.contributed_rows(batch)
        if is_whole and moved.staged_rows != contributed:
            events = ("INSERT", "UPDATE") if self.upsert else ("INSERT",)
            refuse_kept_out(cursor, staging, self.target, winners, moved, contributed, events)
        return moved

    def _moved(
        self, cursor: Cursor, batch: Batch, winners: list[tuple[int, int]], room: int | None
    ) -> Moved:
        if self.refused_become_dead_letters:
            return Search(cursor, batch, self.target, self.columns, winners).move(room)
        with naming_refusals(self.target):
            if self.upsert:
                upserting = Upserting(
                    cursor, batch, self.target, self.columns, self.upsert, winners
                )
                return upserting.move()
            return Moved(
                move_rows(cursor, batch.staging, self.target, self.columns, batch.seq, winners)
            )

    def move_dead_letters(self, transaction: Deciding, batch: Batch) -> int:
        """Move the dead letters of the reads that count; return how many."""
        return move_dead_letters(transaction.cursor, batch.staging, batch.region, batch.seq)
