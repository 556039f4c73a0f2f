"""Remove published rows from the target, for a rewind."""

from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.plan import MOST
from tidemark.staging.catalog import (
    find_columns,
    find_interfering,
    find_relation,
    find_table_rights,
)
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.errors import RowsMayNotBeDeleted, TargetHasNoSeq, TargetKeepsRows
from tidemark.staging.ports import Deciding
from tidemark.staging.refusal import naming_refusals
from tidemark.staging.target import Target, keep, refuse_unfit_table

_COUNT = sql.SQL(
    "SELECT count(*) FROM {target} WHERE {batch_seq} > {after} AND {batch_seq} <= {up_to}"
)
_DELETE = sql.SQL("DELETE FROM {target} WHERE {batch_seq} > {after} AND {batch_seq} <= {up_to}")


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """The published rows of a target, by batch."""

    target: Target
    up_to: int = MOST
    """The last batch that is meant; by default all are."""
    deletes: bool = True
    """Whether this role is to delete them."""

    def count_rows(self, cursor: Cursor, after_seq: int) -> int:
        """Count the rows that were published after a checkpoint.

        Raises:
            Refused: the role may not delete them, or the table has no batch_seq, or see
                `refuse_unfit_table`.
        """
        if not self._is_there(cursor):
            return 0
        table = self.target.schema, self.target.table
        if self.deletes and not find_table_rights(cursor, *table).delete:
            raise RowsMayNotBeDeleted(target=str(self.target))
        return self._count(cursor, after_seq)

    def remove_rows(self, transaction: Deciding, after_seq: int) -> int:
        """Delete all rows that were published after a checkpoint; return how many.

        Raises:
            TargetRefused: a constraint of the target, a table that refers to it, a trigger or a
                rule keeps a row; or the region has published to another table.
            Refused: see `count_rows`.
        """
        cursor = transaction.cursor
        if not self._is_there(cursor):
            return 0
        with naming_refusals([self.target]):
            cursor.execute(self._after(_DELETE, after_seq))
            removed = cursor.rowcount
        keep(transaction, self.target)
        if left := self._count(cursor, after_seq):
            raise self._kept(cursor, removed, left)
        return removed

    def _kept(self, cursor: Cursor, removed: int, left: int) -> TargetKeepsRows:
        guards = find_interfering(cursor, self.target.schema, self.target.table, "DELETE")
        return TargetKeepsRows(
            target=str(self.target), removed=removed, left=left, by=tuple(guards)
        )

    def _count(self, cursor: Cursor, after_seq: int) -> int:
        cursor.execute(self._after(_COUNT, after_seq))
        return int((cursor.fetchone() or (0,))[0])

    def _after(self, statement: sql.SQL, after_seq: int) -> sql.Composed:
        # a literal: if there are parameters, psycopg2 reads a % in a name as a placeholder
        return statement.format(
            target=self.target.identifier,
            batch_seq=sql.Identifier(BATCH_SEQ),
            after=sql.Literal(after_seq),
            up_to=sql.Literal(self.up_to),
        )

    def _is_there(self, cursor: Cursor) -> bool:
        target = self.target
        relation = find_relation(cursor, target.schema, target.table)
        if relation is None:
            return False
        refuse_unfit_table(cursor, target, relation)
        columns = {column.name for column in find_columns(cursor, target.schema, target.table)}
        if BATCH_SEQ not in columns:
            raise TargetHasNoSeq(target=str(target))
        return True
