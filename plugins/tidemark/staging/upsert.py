"""Upsert: of each key the target holds the last row, or none; inside the publish.

prepare
  1 last      each key's last staged row, in a table that lives as long as the transaction
  2 refuse    a key that is null, has no order, or lies in two partitions; a record of another batch
  3 older     keys of which the target holds a newer row are left alone (with order_by alone)
  4 undo      what each key was before is kept in the ledger, for a rewind
apply
  5 write     delete the deleted, upsert the others; count both by what the statements did
finish
  6 deleted   the ledger knows which keys are deleted
  7 outbox    where rows are sent to a topic, keep what each key is now, or that it is gone
"""

from collections.abc import Sequence
from dataclasses import replace

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch, Moved
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import configure
from tidemark.staging import upsert_sql
from tidemark.staging.appending import Appending
from tidemark.staging.catalog import find_columns, find_interfering
from tidemark.staging.column import Column
from tidemark.staging.errors import LastRowUnknown, MarkedRowsKept, RowUnplaced, Undecided
from tidemark.staging.fit import parsed
from tidemark.staging.in_order import apply_in_order
from tidemark.staging.keyed import stored
from tidemark.staging.move import of_winners
from tidemark.staging.outbox import keep_statement
from tidemark.staging.refusal import rests_on_others
from tidemark.staging.target import Target
from tidemark.staging.upsert_names import commas, exact_texts, names_of, of_chosen
from tidemark.staging.upsert_write import write_new_rows, write_rows


class Upserting:
    """One batch and the target that it is upserted into."""

    is_final = False  # without a refused row its key has the one before it

    def __init__(
        self,
        cursor: Cursor,
        batch: Batch,
        target: Target,
        columns: Sequence[Column],
        upsert: Upsert,
        winners: Sequence[tuple[int, int]],
        *,
        is_sent: bool = False,
    ) -> None:
        """`is_sent`: the outbox keeps what the batch changes."""
        self.target = target
        self._is_sent = is_sent
        self._cursor = cursor
        self._batch = batch
        self._columns = columns
        self._upsert = upsert
        self._winners = winners
        self._table = find_columns(cursor, target.schema, target.table)
        self._names = names_of(batch, target, columns, upsert, self._table, winners)
        self._wanted: sql.Composable = sql.SQL("true")
        self._superseded = 0
        self._are_there = False

    def prepare(self, wanted: sql.Composable) -> None:
        """Find each key's last row, and keep what the key was.

        Raises:
            RowUnplaced: a row has no key, or no order.
            TargetRefused: what decides a key's last row contradicts itself.
            psycopg2.Error: the target's types refuse a row if `is_refusal` is true of it.
        """
        self._wanted = wanted
        chosen = sql.SQL("{} AND {}").format(of_winners(self._winners), wanted)
        self._names = of_chosen(self._names, chosen)
        exact_texts(self._cursor)
        staged = self._find_last()
        if self._upsert.order_by is None:
            are_there = self._refuse_other_partitions() > 0
        else:
            self._leave_newer()
            are_there = True  # some may be, nobody has counted them
        (changed,) = self._counts(sql.SQL("SELECT count(*) FROM {last}"))
        self._superseded = staged - changed
        self._keep_undo(are_there=are_there)

    def places(self) -> sql.Composed:
        """The last rows."""
        return upsert_sql.PLACES.format(**self._names)

    def apply(self, at: sql.Composable | None = None) -> int:
        """Delete the keys whose last row is marked, upsert the others; how many are upserted.

        All of them go in together, or else in the order of their records.

        Raises:
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """
        if at is not None:
            return self._write(upsert_sql.AT.format(at=at))
        self._cursor.execute("SAVEPOINT last_rows")
        try:
            written = self._write(sql.SQL("true"))
        except psycopg2.Error as error:
            if not rests_on_others(error):
                raise
            self._cursor.execute("ROLLBACK TO SAVEPOINT last_rows")
            in_order = self._apply_in_order()
            if in_order is None:
                raise
            written = in_order
        self._cursor.execute("RELEASE SAVEPOINT last_rows")
        return written

    def _apply_in_order(self) -> int | None:
        deletes = self._upsert.deleted is not None
        return apply_in_order(self._cursor, self._names, deletes=deletes)

    def _write(self, taken: sql.Composable) -> int:
        self._names["taken"] = taken
        if self._upsert.deleted is not None:
            self._do(upsert_sql.DELETE)
        return (write_rows if self._are_there else write_new_rows)(self._cursor, self._names)

    def finish(self, written: int) -> Moved:
        """The ledger knows what the keys are now.

        Raises:
            TargetRefused: the target keeps a row that is to be deleted.
        """
        deleted = self._keep_deleted()
        self._do(upsert_sql.CAME_BACK)
        if self._is_sent:
            self._cursor.execute(keep_statement(self._names, self._table, self._upsert.key))
        self._do(sql.SQL("DROP TABLE {last}"))
        key = self._upsert.key
        return Moved(written, deleted=deleted, superseded=self._superseded, key=key)

    def trial(self) -> Appending:
        """Takes rows that have a key, an order, and values of the target's types."""
        trial = replace(
            self.target,
            schema=self._batch.staging.schema,
            table=f"{self._batch.region}_{self._batch.seq}_trial",
        )
        needed = filter(None, (*self._upsert.key, self._upsert.order_by))
        not_null = commas(upsert_sql.NOT_NULL.format(sql.Identifier(name)) for name in needed)
        self._cursor.execute(
            upsert_sql.TRIAL.format(**self._names, trial=trial.identifier, not_null=not_null)
        )
        columns = stored(parsed(self._columns, self._table), self._upsert)
        taken = Appending(self._cursor, self._batch, trial, columns, self._winners)
        taken.prepare(self._wanted)
        return taken

    def _find_last(self) -> int:
        """Find each key's last row; how many rows are staged.

        Raises:
            RowUnplaced, TargetRefused: it is not known which row is the last one.
        """
        configure(self._cursor, {"default_statistics_target": "10"}, is_local=True)
        self._do(upsert_sql.MAKE_LAST)
        self._do(upsert_sql.FILL_LAST)
        self._do(sql.SQL("ANALYZE {last} ({key})"))
        staged, *counts = self._counts(upsert_sql.UNDECIDED)
        for count, why in zip(counts, Undecided, strict=True):
            if count:
                raise self._unknown(count, why)
        return staged

    def _refuse_other_partitions(self) -> int:
        """Without an order, what is stored of a key came from its partition; how many are."""
        moved, stored = self._counts(upsert_sql.MOVED)
        (moved_deleted,) = self._counts(upsert_sql.MOVED_DELETED)
        if moved + moved_deleted:
            raise self._unknown(moved + moved_deleted, Undecided.in_two_partitions)
        return stored

    def _leave_newer(self) -> None:
        self._do(upsert_sql.NEWER)
        self._do(upsert_sql.NEWER_DELETED)

    def _keep_undo(self, *, are_there: bool) -> None:
        self._are_there = are_there and self._do(upsert_sql.UNDO) > 0
        self._do(upsert_sql.UNDO_COLUMNS)
        self._do(upsert_sql.UNDO_DELETED)

    def _keep_deleted(self) -> int:
        """The ledger knows the keys whose last row is marked; how many there are."""
        if self._upsert.deleted is None:
            return 0
        (left,) = self._counts(upsert_sql.LEFT)
        if left:
            found = find_interfering(self._cursor, self.target.schema, self.target.table, "DELETE")
            raise MarkedRowsKept(
                target=str(self.target),
                key=self._upsert.key,
                seq=self._batch.seq,
                rows=left,
                by=tuple(found),
            )
        return self._do(upsert_sql.KEEP_DELETED)

    def _unknown(self, keys: int, why: Undecided) -> LastRowUnknown:
        is_unplaced = why in (Undecided.null_key, Undecided.null_order)
        kind = RowUnplaced if is_unplaced else LastRowUnknown
        return kind(
            target=str(self.target),
            key=self._upsert.key,
            seq=self._batch.seq,
            keys=keys,
            why=why,
        )

    def _counts(self, statement: sql.SQL) -> tuple[int, ...]:
        self._do(statement)
        return self._cursor.fetchone() or ()

    def _do(self, statement: sql.SQL) -> int:
        self._cursor.execute(statement.format(**self._names))
        return self._cursor.rowcount
