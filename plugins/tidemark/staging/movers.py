"""The movers of all targets of a batch: they move together, in the publishing transaction."""

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from tidemark.errors import SchemaMismatch
from tidemark.model.batch import Batch, Moved
from tidemark.model.contribution import Contribution
from tidemark.staging import tables
from tidemark.staging.deferred import all_deferred
from tidemark.staging.move import count_dead_letters, move_dead_letters
from tidemark.staging.mover import Mover
from tidemark.staging.ports import Deciding
from tidemark.staging.references import parents_first, refuse_unfit


@dataclass(frozen=True, slots=True)
class Movers:
    """Moves a batch's staging into its targets and the ledger: all of it, or nothing."""

    movers: tuple[Mover, ...]

    def add_columns(self, cursor: Cursor) -> dict[str, dict[str, str]]:
        """Columns that targets lacked and are there now, with their types; see `add_columns`.

        Raises:
            Refused: a target is another role's.
        """
        added = {str(mover.target): mover.add_columns(cursor) for mover in self.movers}
        return {target: columns for target, columns in added.items() if columns}

    def ensure_targets(self, cursor: Cursor) -> dict[str, bool]:
        """Each target takes its columns in its way; by name, whether it was created.

        Raises:
            InvalidSettings, Refused, SchemaMismatch: see `Mover.ensure_target`.
            Refused: a foreign key between the targets keeps them from being moved together.
        """
        created, unfit = dict[str, bool](), list[SchemaMismatch]()
        for mover in self.movers:
            try:
                created[mover.name] = mover.ensure_target(cursor)
            except SchemaMismatch as error:
                unfit.append(error)
        if unfit:
            raise SchemaMismatch("\n".join(map(str, unfit)))
        upserts = {mover.name: mover.upsert for mover in self.movers if mover.upsert}
        refuse_unfit(cursor, [mover.target for mover in self.movers], upserts)
        return created

    def create_staging(self, cursor: Cursor, batch: Batch) -> None:
        """The batch's staging tables are there, one of rows for each target."""
        for mover in self.movers:
            tables.create(cursor, batch.staging.of_target(mover.name), mover.columns)

    def count_staged(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> tuple[dict[str, int], int]:
        """How many rows, by target, and dead letters of the contribution are in staging."""
        cursor = transaction.cursor
        letters = count_dead_letters(cursor, batch.staging, contribution.reads)
        return {m.name: m.count_rows(cursor, batch, contribution) for m in self.movers}, letters

    def move_rows(
        self, transaction: Deciding, batch: Batch, room: int | None = None
    ) -> dict[str, Moved]:
        """The rows of every target, parents first; see `Mover.move_rows`.

        Deferred constraints are checked here, so that no target can make COMMIT fail.

        Raises:
            TargetRefused: see `Mover.move_rows`.
            Refused: foreign keys between the targets form a circle.
        """
        by_name = {mover.name: mover for mover in self.movers}
        targets = [mover.target for mover in self.movers]
        moved = dict[str, Moved]()
        with all_deferred(transaction.cursor, targets):
            for target in parents_first(transaction.cursor, targets):
                moved[target.name] = by_name[target.name].move_rows(transaction, batch, room)
        return moved

    def move_dead_letters(self, transaction: Deciding, batch: Batch) -> int:
        """Move the dead letters of the reads that count; return how many."""
        return move_dead_letters(transaction.cursor, batch.staging, batch.region, batch.seq)
