"""The movers of all targets of a batch: they move together, in the publishing transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg2.extensions import cursor as Cursor

from tidemark.errors import SchemaMismatch
from tidemark.model.batch import Batch, Contribution, Moved
from tidemark.model.upsert import Upsert
from tidemark.staging import tables
from tidemark.staging.deferred import all_deferred
from tidemark.staging.errors import TargetsDoNotFit
from tidemark.staging.move import count_dead_letters, move_dead_letters
from tidemark.staging.mover import Mover
from tidemark.staging.moving import EVERYTHING
from tidemark.staging.ports import Deciding
from tidemark.staging.references import parents_first, refuse_unfit
from tidemark.staging.refusal import naming_refusals
from tidemark.staging.refused_rows import Search
from tidemark.staging.target import Target


@dataclass(frozen=True, slots=True)
class Movers:
    """Moves a batch's staging into its targets and the ledger: all of it, or nothing."""

    movers: tuple[Mover, ...]
    letter_bytes: int | None = None
    """Kept of what a target refuses of a record, at most; None keeps it whole."""

    def add_columns(self, cursor: Cursor) -> dict[str, dict[str, str]]:
        """Columns that targets lacked and are there now, with their types; see `add_columns`.

        Raises:
            Refused: a target is another role's.
        """
        added = {str(mover.target): mover.add_columns(cursor) for mover in self.movers}
        return {target: columns for target, columns in added.items() if columns}

    def without_unknown(self, cursor: Cursor) -> "Movers":
        """The movers that leave out what their targets lack, where that is wanted."""
        return replace(self, movers=tuple(one.without_unknown(cursor) for one in self.movers))

    def remarks(self) -> list[str]:
        """What is left out, target by target."""
        return [
            f"{mover.target} lacks {', '.join(sorted(mover.left_out))}: not published"
            " (target.on_new_column: ignore)"
            for mover in self.movers
            if mover.left_out
        ]

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
            raise unfit[0] if len(unfit) == 1 else TargetsDoNotFit(causes=tuple(unfit))
        refuse_unfit(cursor, self._targets, self._upserts)
        return created

    @property
    def _targets(self) -> list[Target]:
        return [mover.target for mover in self.movers]

    @property
    def _upserts(self) -> dict[str, Upsert]:
        return {mover.name: mover.upsert for mover in self.movers if mover.upsert}

    def create_staging(self, cursor: Cursor, batch: Batch, writer: str | None = None) -> None:
        """The batch's staging tables are there, one of rows for each target; see `create`."""
        for mover in self.movers:
            tables.create(cursor, batch.staging.of_target(mover.name), mover.columns, writer)

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
        """The winners' rows of every target, parents first, under the batch's seq.

        Deferred constraints are checked here, so that no target can make COMMIT fail. Where refused
        rows become dead letters, at most `room` records may: with more, the search for them ends
        early and the caller must refuse the batch.

        Raises:
            TargetRefused: a constraint of a target refuses a row, a trigger keeps it out, or the
                region has published to another table.
            Refused: foreign keys between the targets form a circle; or one would not have been
                taken at the start, see `refuse_unfit`.
            InvalidSettings, Refused, SchemaMismatch: see `Mover.keep`.
        """
        by_name = {mover.name: mover for mover in self.movers}
        targets = self._targets
        with all_deferred(transaction.cursor, targets):
            order = parents_first(transaction.cursor, targets)
            moved = self._moved(transaction, batch, [by_name[one.name] for one in order], room)
            refused = sum(one.refused_records for one in moved.values())
            for one in order:
                by_name[one.name].keep(transaction)
                if room is None or refused <= room:
                    by_name[one.name].refuse_kept_out(transaction, batch, moved[one.name])
            refuse_unfit(transaction.cursor, targets, self._upserts)  # one may have come since
        return moved

    def _moved(
        self, transaction: Deciding, batch: Batch, movers: Sequence[Mover], room: int | None
    ) -> dict[str, Moved]:
        cursor, winners = transaction.cursor, transaction.winners(batch)
        movings = [mover.moving(cursor, batch, winners) for mover in movers]
        if any(mover.refused_become_dead_letters for mover in movers):
            search = Search(cursor, batch, movings, winners, room, self.letter_bytes)
            return search.move()
        moved = dict[str, Moved]()
        for moving in movings:
            with naming_refusals([moving.target]):
                moving.prepare(EVERYTHING)
                moved[moving.target.name] = moving.finish(moving.apply())
        return moved

    def move_dead_letters(self, transaction: Deciding, batch: Batch) -> int:
        """Move the dead letters of the reads that count; return how many."""
        return move_dead_letters(transaction.cursor, batch.staging, batch.region, batch.seq)
