"""Taking published rows back out of the target: what a rewind removes."""

from dataclasses import dataclass
from typing import Protocol

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import Refused
from tidemark.staging.catalog import find_columns, find_relation
from tidemark.staging.columns import BATCH_SEQ
from tidemark.staging.move import REFUSALS, target_refused
from tidemark.staging.target import Target


class Deciding(Protocol):
    """What removing asks of the rewind's transaction."""

    @property
    def cursor(self) -> Cursor:
        """The transaction's cursor."""


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """The rows of a target by the batch that made them visible."""

    target: Target

    def count_rows(self, cursor: Cursor, after_seq: int) -> int:
        """How many rows came after a checkpoint.

        Raises:
            Refused: the role may not delete them, or the table does not say what came when.
        """
        if not self._is_there(cursor):
            return 0
        cursor.execute(
            "SELECT has_table_privilege(%s, 'DELETE')",
            (self.target.identifier.as_string(cursor),),
        )
        if cursor.fetchone() != (True,):
            raise Refused(
                f"{self.target}: this role may not delete rows, which a rewind does; grant DELETE"
                " on the table (docs/operating.md)"
            )
        cursor.execute(self._statement("SELECT count(*)"), (after_seq,))
        return int((cursor.fetchone() or (0,))[0])

    def remove_rows(self, transaction: Deciding, after_seq: int) -> int:
        """Delete the rows that came after a checkpoint; return how many.

        Raises:
            TargetRefused: a constraint of the target, or of a table that refers to it, keeps one.
        """
        if not self._is_there(transaction.cursor):
            return 0
        try:
            transaction.cursor.execute(self._statement("DELETE"), (after_seq,))
            removed = transaction.cursor.rowcount
            transaction.cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except REFUSALS as error:
            raise target_refused(error, self.target) from None
        return removed

    def _statement(self, what: str) -> sql.Composed:
        return sql.SQL(what + " FROM {} WHERE {} > %s").format(
            self.target.identifier, sql.Identifier(BATCH_SEQ)
        )

    def _is_there(self, cursor: Cursor) -> bool:
        target = self.target
        if find_relation(cursor, target.schema, target.table) is None:
            return False
        columns = {column.name for column in find_columns(cursor, target.schema, target.table)}
        if BATCH_SEQ not in columns:
            raise Refused(
                f"{target} has no column {BATCH_SEQ}: which rows came after a checkpoint can't be"
                " told, and none can be taken back"
            )
        return True
