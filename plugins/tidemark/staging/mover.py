"""The mover: what a publish uses to move the staged rows of one target."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch, Contribution, Moved
from tidemark.model.upsert import Upsert
from tidemark.staging.appending import Appending
from tidemark.staging.catalog import find_columns
from tidemark.staging.column import Column
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import ensure_keyed, keep_key, stored
from tidemark.staging.left_out import but, left_out
from tidemark.staging.move import count_rows, refuse_kept_out
from tidemark.staging.moving import Moving
from tidemark.staging.new_columns import add_columns
from tidemark.staging.ports import Deciding
from tidemark.staging.refused_records import refuse_without_coordinates
from tidemark.staging.target import Target, ensure, keep
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
    ignores_columns: bool = False
    """Whether what a table lacks is left out; see left_out.py."""
    needed: frozenset[str] = frozenset()
    """What is never left out, besides: the key of what is sent to an output topic."""
    left_out: frozenset[str] = frozenset()
    """Columns that are staged and not published."""
    is_sent: bool = False
    """Whether an output topic is sent what the target becomes."""

    def add_columns(self, cursor: Cursor) -> dict[str, str]:
        """Give the target the columns that it lacks, if that is wanted; see `add_columns`."""
        if not self.adds_columns:
            return {}
        wanted = stored(self.columns, self.upsert) if self.upsert else self.columns
        return add_columns(cursor, self.target, wanted)

    def without_unknown(self, cursor: Cursor) -> "Mover":
        """The mover that leaves out what the target lacks now, if that is wanted."""
        if not self.ignores_columns:
            return self
        found = left_out(cursor, self.target, self.columns, self.upsert, self.needed)
        return replace(self, left_out=found)

    @property
    def published(self) -> Sequence[Column]:
        """The columns that the target is given."""
        return but(self.columns, self.left_out)

    def ensure_target(self, cursor: Cursor) -> bool:
        """The target takes these columns in this way; True if it was created, see `ensure`.

        Raises:
            InvalidSettings: the rows lack a column that the mode needs.
            Refused, SchemaMismatch: see `ensure` and `ensure_keyed`.
        """
        if self.upsert:
            return ensure_keyed(cursor, self.target, self.published, self.upsert)
        if self.refused_become_dead_letters:
            refuse_without_coordinates(
                self.published, "on_refused: dead_letter", "on_refused: stop"
            )
        return ensure(cursor, self.target, self.published)

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return self.target.name

    def count_rows(self, cursor: Cursor, batch: Batch, contribution: Contribution) -> int:
        """How many rows of the contribution are in staging."""
        winners = [(winner.member, winner.attempt) for winner in contribution.winners]
        return count_rows(cursor, batch.staging.of_target(self.name), winners)

    def moving(self, cursor: Cursor, batch: Batch, winners: Sequence[tuple[int, int]]) -> Moving:
        """Its part of the publish of a batch, as its mode says."""
        if self.upsert:
            given = cursor, batch, self.target, self.published, self.upsert, winners
            return Upserting(*given, is_sent=self.is_sent)
        table = find_columns(cursor, self.target.schema, self.target.table)
        return Appending(cursor, batch, self.target, parsed(self.published, table), winners)

    def keep(self, transaction: Deciding) -> None:
        """What rows were just moved into is still the target, and still fit; see `keep`.

        Raises:
            TargetRefused, Refused: see `keep`.
            InvalidSettings, SchemaMismatch, TargetRefused, Refused: see `keep_key`.
        """
        keep(transaction, self.target)
        if self.upsert:
            keep_key(transaction, self.target, self.upsert)

    def refuse_kept_out(self, transaction: Deciding, batch: Batch, moved: Moved) -> None:
        """All that was contributed to the target is moved or refused; else staging was lost.

        Raises:
            TargetRefused: a trigger or a rule of the target kept rows out.
        """
        contributed = transaction.contributed_rows(batch, self.name)
        if moved.staged_rows == contributed:
            return
        staging, winners = batch.staging.of_target(self.name), transaction.winners(batch)
        events = ("INSERT", "UPDATE") if self.upsert else ("INSERT",)
        refuse_kept_out(
            transaction.cursor, staging, self.target, winners, moved, contributed, events
        )
