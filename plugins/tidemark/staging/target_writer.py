"""A batch's target writers: a publish uses them to move the staged rows of all targets together.

Columns that an existing target lacks are added where the pipeline consents, or left out. Added ones
may be null: older rows have no value. No type is changed, no column dropped. Left out ones are
staged as all others and not published. What tells rows apart, orders them or says which record they
are of is never left out: without it the table is refused, as where nothing would be left to
publish.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg2
from psycopg2 import errorcodes, sql

from tidemark.errors import SchemaMismatch, TargetRefused
from tidemark.model.batch import Batch, Contribution, Moved
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor, lock_name
from tidemark.protocol.ports import Deciding
from tidemark.staging import tables
from tidemark.staging._references import parents_first, refuse_unfit_references
from tidemark.staging._upsert import KeysWrittenMeanwhile, Upserting
from tidemark.staging.catalog import TableColumn, find_columns, find_interfering, find_relation
from tidemark.staging.column import COORDINATES, MOST_COLUMNS, MOST_ROW_BYTES, Column, too_wide
from tidemark.staging.errors import (
    ColumnsMayNotBeAdded,
    ColumnsTooMany,
    OthersWrite,
    RecordsLeftOut,
    RowRefused,
    TargetKeptRowsOut,
    TargetsDoNotFit,
)
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import ensure_keyed, keep_key, refuse_unfit_rows, stored
from tidemark.staging.move import (
    EVERYTHING,
    Appending,
    Moving,
    count_dead_letters,
    count_rows,
    move_dead_letters,
)
from tidemark.staging.refusal import all_deferred, naming_refusals
from tidemark.staging.refused import (
    Search,
    missing_coordinates,
    refuse_without_coordinates,
    refused_at_staging,
)
from tidemark.staging.target import Target, ensure, keep, refuse_unfit_columns

TRIES = 5
"""How often a publish begins anew because others wrote to the same keys at the same moment."""

_ALTER = sql.SQL("ALTER TABLE {target} {columns}")


def add_columns(cursor: Cursor, target: Target, columns: Sequence[Column]) -> dict[str, str]:
    """Add the columns that the target lacks; by name, their types. None to a table that is not.

    Runs in the caller's transaction, under the lock of `ensure`, which judges the table after.

    Raises:
        Refused: the table is another role's.
        SchemaMismatch: it has no room for so many.
    """
    lock_name(cursor, f"tidemark {target}")
    if find_relation(cursor, target.schema, target.table) is None:
        return {}
    known = {own.name for own in find_columns(cursor, target.schema, target.table)}
    missing = [column for column in columns if column.name not in known]
    if not missing:
        return {}
    added = [
        sql.SQL("ADD COLUMN {} " + column.postgres_type).format(sql.Identifier(column.name))
        for column in missing
    ]
    types = {column.name: column.postgres_type for column in missing}
    statement = _ALTER.format(target=target.identifier, columns=sql.SQL(", ").join(added))
    try:
        cursor.execute(statement)
    except psycopg2.Error as error:
        if error.pgcode == errorcodes.TOO_MANY_COLUMNS:  # dropped ones count as well
            raise ColumnsTooMany(columns=len(known) + len(missing), most=MOST_COLUMNS) from error
        if error.pgcode not in (errorcodes.INSUFFICIENT_PRIVILEGE, errorcodes.WRONG_OBJECT_TYPE):
            raise
        cause = error.diag.message_primary or ""
        raise ColumnsMayNotBeAdded(target=str(target), columns=types, cause=cause) from error
    return types


def columns_to_skip(
    cursor: Cursor,
    target: Target,
    columns: Sequence[Column],
    upsert: Upsert | None,
    needed: Collection[str] = (),
) -> frozenset[str]:
    """The names of what the table lacks and does without; none of a table that is not there."""
    known = {own.name for own in find_columns(cursor, target.schema, target.table)}
    must = {*COORDINATES, *needed, *(upsert.names if upsert else ())}
    missing = frozenset(one.name for one in columns if one.name not in known | must)
    is_some_left = any(one.name not in missing for one in columns)
    return missing if known and is_some_left else frozenset()


def but(columns: Sequence[Column], names: Collection[str]) -> tuple[Column, ...]:
    """The columns without those of these names."""
    return tuple(column for column in columns if column.name not in names)


@dataclass(frozen=True, slots=True)
class TargetWriter:
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
    """Whether columns that the table lacks are skipped."""
    needed: frozenset[str] = frozenset()
    """What is never left out, besides: the key of what is sent to an output topic."""
    skipped_columns: frozenset[str] = frozenset()
    """Columns that are staged and not published."""
    is_sent: bool = False
    """Whether an output topic is sent what the target becomes."""

    def add_columns(self, cursor: Cursor) -> dict[str, str]:
        """Give the target the columns that it lacks, if that is wanted; see `add_columns`."""
        if not self.adds_columns:
            return {}
        wanted = stored(self.columns, self.upsert) if self.upsert else self.columns
        return add_columns(cursor, self.target, wanted)

    def without_unknown(self, cursor: Cursor) -> "TargetWriter":
        """The writer that leaves out what the target lacks now, if that is wanted."""
        if not self.ignores_columns:
            return self
        found = columns_to_skip(cursor, self.target, self.columns, self.upsert, self.needed)
        return replace(self, skipped_columns=found)

    def for_publish(self, cursor: Cursor) -> "TargetWriter":
        """The writer of what the target takes now: a column that it got meanwhile is published.

        So it does not depend on who publishes. What it lost meanwhile is not left out unsaid.

        Raises:
            SchemaMismatch: the table no longer fits.
        """
        lacking = self.without_unknown(cursor).skipped_columns
        writer = replace(self, skipped_columns=self.skipped_columns & lacking)
        writer.refuse_unfit(cursor)
        return writer

    def refuse_unfit(self, cursor: Cursor) -> Sequence[TableColumn]:
        """The target's columns hold each value unchanged; see `refuse_unfit_columns`."""
        return refuse_unfit_columns(cursor, self.target, self._stored)

    @property
    def published(self) -> Sequence[Column]:
        """The columns that are published."""
        return but(self.columns, self.skipped_columns)

    @property
    def _stored(self) -> Sequence[Column]:
        """The columns that the target has."""
        return stored(self.published, self.upsert) if self.upsert else self.published

    def ensure_target(self, cursor: Cursor) -> bool:
        """The target takes these columns in this way; True if it was created, see `ensure`.

        Raises:
            InvalidSettings: the rows lack a column that the mode needs.
            Refused, SchemaMismatch: see `ensure` and `ensure_keyed`.
        """
        self.refuse_unfit_rows()
        if self.upsert:
            return ensure_keyed(cursor, self.target, self.published, self.upsert)
        return ensure(cursor, self.target, self.published)

    def refuse_unfit_rows(self) -> None:
        """The rows have the columns that the mode needs, whatever the table is.

        Raises:
            InvalidSettings: they lack one, or it has an unfit type.
        """
        if self.upsert:
            refuse_unfit_rows(self.published, self.upsert)
        elif self.refused_become_dead_letters:
            refuse_without_coordinates(
                self.published, "on_refused: dead_letter", "on_refused: stop"
            )

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return self.target.name

    def count_rows(self, cursor: Cursor, batch: Batch, contribution: Contribution) -> int:
        """How many rows of the contribution are in staging."""
        winners = [winner.key for winner in contribution.winners]
        return count_rows(cursor, batch.staging.of_target(self.name), winners)

    def moving(self, cursor: Cursor, batch: Batch, winners: Sequence[tuple[int, int]]) -> Moving:
        """Its part of the publish of a batch, as its mode says."""
        if self.upsert:
            return Upserting(
                cursor,
                batch,
                target=self.target,
                columns=self.published,
                upsert=self.upsert,
                winners=winners,
                is_sent=self.is_sent,
            )
        columns = parsed(
            self.published, find_columns(cursor, self.target.schema, self.target.table)
        )
        return Appending(cursor, batch, target=self.target, columns=columns, winners=winners)

    def keep(self, transaction: Deciding) -> None:
        """What rows were just moved into is still the target, and still fit; see `keep`.

        An INSERT rounds and cuts values to their columns' types without a word.

        Raises:
            TargetRefused, Refused: see `keep`.
            SchemaMismatch: see `refuse_unfit_columns`.
            InvalidSettings, SchemaMismatch, TargetRefused, Refused: see `keep_key`.
        """
        keep(transaction, self.target)
        table = self.refuse_unfit(transaction.cursor)
        if self.upsert:
            keep_key(transaction, self.target, self.upsert, table)

    def refuse_kept_out(self, transaction: Deciding, batch: Batch, moved: Moved) -> None:
        """Raise if the target kept rows out; return if staged rows are missing: staging was lost.

        Raises:
            TargetRefused: all rows are staged, but not all went in; names the triggers and rules.
        """
        contributed = transaction.contributed_rows(batch, self.name)
        if moved.staged_rows == contributed:
            return
        cursor, staging = transaction.cursor, batch.staging.of_target(self.name)
        staged = count_rows(cursor, staging, transaction.winners(batch))
        if staged != contributed:
            return
        events = ("INSERT", "UPDATE") if self.upsert else ("INSERT",)
        found = find_interfering(cursor, self.target.schema, self.target.table, *events)
        raise TargetKeptRowsOut(
            target=str(self.target), staged=staged, moved=moved.staged_rows, by=tuple(found)
        )


@dataclass(frozen=True, slots=True)
class TargetWriters:
    """Moves a batch's staging into its targets and the ledger: all of it, or nothing."""

    writers: tuple[TargetWriter, ...]
    dead_letter_bytes: int | None = None
    """Kept of what a target refuses of a record, at most; None keeps it whole."""

    def add_columns(self, cursor: Cursor) -> dict[str, dict[str, str]]:
        """Columns that targets lacked and are there now, with their types; see `add_columns`.

        Raises:
            Refused: a target is another role's.
        """
        added = {str(writer.target): writer.add_columns(cursor) for writer in self.writers}
        return {target: columns for target, columns in added.items() if columns}

    def without_unknown(self, cursor: Cursor) -> "TargetWriters":
        """The writers that leave out what their targets lack, where that is wanted."""
        return replace(self, writers=tuple(one.without_unknown(cursor) for one in self.writers))

    def remarks(self) -> list[str]:
        """What is left out, and rows that may be refused, target by target."""
        left_out = [
            f"{writer.target} lacks {', '.join(sorted(writer.skipped_columns))}: not published"
            " (target.on_new_column: ignore)"
            for writer in self.writers
            if writer.skipped_columns
        ]
        too_big = [
            f"{writer.target} can't take a row in which none of its {len(writer.columns)} columns"
            f" is null: that has {size} bytes, and {MOST_ROW_BYTES} have room in a page of Postgres"
            for writer in self.writers
            if (size := too_wide(writer.columns))
        ]
        return [*left_out, *too_big]

    def refuse_unfit_rows(self) -> None:
        """The rows have the columns that the modes need; see `TargetWriter.refuse_unfit_rows`."""
        for writer in self.writers:
            writer.refuse_unfit_rows()

    def ensure_targets(self, cursor: Cursor) -> dict[str, bool]:
        """Each target takes its columns in its way; by name, whether it was created.

        Raises:
            InvalidSettings, Refused, SchemaMismatch: see `TargetWriter.ensure_target`.
            Refused: a foreign key between the targets keeps them from being moved together.
        """
        created, unfit = dict[str, bool](), list[SchemaMismatch]()
        for writer in self.writers:
            try:
                created[writer.name] = writer.ensure_target(cursor)
            except SchemaMismatch as error:
                unfit.append(error)
        if unfit:
            raise unfit[0] if len(unfit) == 1 else TargetsDoNotFit(causes=tuple(unfit))
        refuse_unfit_references(cursor, self._targets, self._upserts)
        return created

    @property
    def _targets(self) -> list[Target]:
        return [writer.target for writer in self.writers]

    @property
    def _upserts(self) -> dict[str, Upsert]:
        return {writer.name: writer.upsert for writer in self.writers if writer.upsert}

    def staging_fits(self, cursor: Cursor, batch: Batch) -> bool:
        """Whether the batch's staging tables are there.

        Raises:
            SchemaMismatch: another member has made them for other columns.
        """
        if not tables.are_there(cursor, batch.staging):
            return False
        self._refuse_other_columns(cursor, batch)
        return True

    def _refuse_other_columns(self, cursor: Cursor, batch: Batch) -> None:
        for one in self.writers:
            tables.refuse_other_columns(cursor, batch.staging.of_target(one.name), one.columns)

    def create_staging(self, cursor: Cursor, batch: Batch, writer: str | None = None) -> None:
        """The batch's staging tables are there, one of rows for each target; see `create`."""
        for one in self.writers:
            tables.create(cursor, batch.staging.of_target(one.name), one.columns, writer)

    def count_staged(
        self, transaction: Deciding, batch: Batch, contribution: Contribution
    ) -> tuple[dict[str, int], int]:
        """How many rows, by target, and dead letters of the contribution are in staging."""
        cursor = transaction.cursor
        tables.refuse_missing(cursor, batch.staging)
        dead_letters = count_dead_letters(cursor, batch.staging, contribution.reads)
        rows = {m.name: m.count_rows(cursor, batch, contribution) for m in self.writers}
        return rows, dead_letters

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
                taken at the start, see `refuse_unfit_references`.
            SchemaMismatch: see `TargetWriter.for_publish`.
            InvalidSettings, Refused, SchemaMismatch: see `TargetWriter.keep`.
            StagingLost: the staging tables are gone.
        """
        tables.refuse_missing(transaction.cursor, batch.staging)
        self._refuse_other_columns(transaction.cursor, batch)
        by_name = {one.name: one.for_publish(transaction.cursor) for one in self.writers}
        targets = self._targets
        with all_deferred(transaction.cursor, targets):
            order = parents_first(transaction.cursor, targets)
            moved = self._moved_beside(
                transaction, batch, [by_name[one.name] for one in order], room
            )
            refused = sum(one.refused_records for one in moved.values())
            for one in order:
                by_name[one.name].keep(transaction)
                if room is None or refused <= room:
                    by_name[one.name].refuse_kept_out(transaction, batch, moved[one.name])
            # One may have come since.
            refuse_unfit_references(transaction.cursor, targets, self._upserts)
        return moved

    def _moved_beside(
        self, transaction: Deciding, batch: Batch, writers: Sequence[TargetWriter], room: int | None
    ) -> dict[str, Moved]:
        """Move the rows beside others who write to the same keys: what they wrote is kept first."""
        cursor = transaction.cursor
        cursor.execute("SAVEPOINT moves")  # the end of the transaction releases it
        for _ in range(TRIES):
            try:
                return self._moved(transaction, batch, writers, room)
            except KeysWrittenMeanwhile:
                cursor.execute("ROLLBACK TO SAVEPOINT moves")
        targets = tuple(str(one.target) for one in writers if one.upsert)
        raise OthersWrite(targets=targets, seq=batch.seq, tries=TRIES)

    def _moved(
        self, transaction: Deciding, batch: Batch, writers: Sequence[TargetWriter], room: int | None
    ) -> dict[str, Moved]:
        cursor, winners = transaction.cursor, transaction.winners(batch)
        movings = [writer.moving(cursor, batch, winners) for writer in writers]
        if any(writer.refused_become_dead_letters for writer in writers):
            search = Search(
                cursor=cursor,
                batch=batch,
                movings=movings,
                winners=winners,
                room=room,
                dead_letter_bytes=self.dead_letter_bytes,
            )
            return search.move()
        if left_out := refused_at_staging(cursor, batch, winners):
            raise RecordsLeftOut(seq=batch.seq, records=len(left_out), guard=left_out[0].detail)
        moved = dict[str, Moved]()
        try:
            for moving in movings:
                with naming_refusals([moving.target]):
                    moving.prepare(EVERYTHING)
                    moved[moving.target.name] = moving.finish(moving.apply())
        except RowRefused as error:
            cursor.execute("ROLLBACK TO SAVEPOINT moves")
            if any(missing_coordinates(one.columns) for one in writers):
                raise
            movings = [writer.moving(cursor, batch, winners) for writer in writers]
            raise _naming_record(error, Search(cursor, batch, movings, winners, room=0)) from None
        return moved

    def move_dead_letters(self, transaction: Deciding, batch: Batch) -> int:
        """Move the dead letters of the reads that count; return how many."""
        return move_dead_letters(transaction.cursor, batch.staging, batch.region, batch.seq)


def _naming_record(error: RowRefused, search: Search) -> RowRefused:
    """The same with the record of the row, if one is refused alone."""
    with suppress(TargetRefused):
        if found := search.first():
            return RowRefused(**vars(error) | {"record": found.coordinates})
    return error
