"""The mover: what a publish uses to move the staged rows of one target."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch, Moved
from tidemark.model.contribution import Contribution
from tidemark.model.upsert import Upsert
from tidemark.staging.catalog import find_columns
from tidemark.staging.column import Column
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import ensure_keyed, stored
from tidemark.staging.move import count_rows, insert_rows, of_winners, refuse_kept_out
from tidemark.staging.new_columns import add_columns
from tidemark.staging.ports import Deciding
from tidemark.staging.refusal import naming_refusals
from tidemark.staging.refused_records import refuse_without_coordinates
from tidemark.staging.refused_rows import Search
from tidemark.staging.target import Target, ensure
from tidemark.staging.upsert import Upserting


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves the staged rows of one target into it, in the publishing transaction."""

    target: Target
    columns: Sequence[Column]
    refused_become_dead_letters: bool = False
    """Whether a row that the target refuses becomes a dead letter; else the batch is refused."""
    upsert: Upsert | None = None
    """How rows are upserted; None: every row is inserted."""
    adds_columns: bool = False
    """Whether a table that lacks columns is given them."""
    is_sent: bool = False
    """Whether an output topic is sent what the target becomes."""

    def add_columns(self, cursor: Cursor) -> dict[str, str]:
        """Give the target the columns that it lacks, if that is wanted; see `add_columns`."""
        if not self.adds_columns:
            return {}
        wanted = stored(self.columns, self.upsert) if self.upsert else self.columns
        return add_columns(cursor, self.target, wanted)

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

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return self.target.name

    def count_rows(self, cursor: Cursor, batch: Batch, contribution: Contribution) -> int:
        """How many rows of the contribution are in staging."""
        winners = [(winner.member, winner.attempt) for winner in contribution.winners]
        return count_rows(cursor, batch.staging.of_target(self.name), winners)

    def move_rows(self, transaction: Deciding, batch: Batch, room: int | None = None) -> Moved:
        """Insert or upsert the winners' rows under the batch's seq.

        Constraints that are deferred are the caller's to check.

        Where refused rows become dead letters, at most `room` records may: with more, the search
        for them ends early and the caller must refuse the batch.

        Raises:
            TargetRefused: a constraint of the target refuses a row, a trigger keeps it out, or
                the region has published to another table.
        """
        cursor, winners = transaction.cursor, transaction.winners(batch)
        staging = batch.staging.of_target(self.name)
        moved = self._moved(cursor, batch, winners, room)
        transaction.keep_target(self.name, self.target.schema, self.target.table)
        is_whole = room is None or moved.refused_records <= room
        contributed = transaction.contributed_rows(batch, self.name)
        if is_whole and moved.staged_rows != contributed:
            events = ("INSERT", "UPDATE") if self.upsert else ("INSERT",)
            refuse_kept_out(cursor, staging, self.target, winners, moved, contributed, events)
        return moved

    def _moved(
        self, cursor: Cursor, batch: Batch, winners: list[tuple[int, int]], room: int | None
    ) -> Moved:
        if self.upsert:
            given = cursor, batch, self.target, self.columns, self.upsert, winners
            with naming_refusals([self.target]):
                return Upserting(*given, is_sent=self.is_sent).move()
        table = find_columns(cursor, self.target.schema, self.target.table)
        columns = parsed(self.columns, table)
        if self.refused_become_dead_letters:
            return Search(cursor, batch, self.target, columns, winners).move(room)
        staging, chosen = batch.staging.of_target(self.name), of_winners(winners)
        with naming_refusals([self.target]):
            return Moved(insert_rows(cursor, staging, self.target, columns, batch.seq, chosen))
