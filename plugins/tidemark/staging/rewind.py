"""Remove published rows from all targets of a region together, for a rewind.

Rows that were appended are deleted; of an upsert each key is put back, see `_undo.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg2 import sql

from tidemark.errors import quoted
from tidemark.model.plan import MAX_BIGINT
from tidemark.postgres.session import Cursor, query
from tidemark.protocol.ports import Deciding
from tidemark.staging._references import parents_first
from tidemark.staging._undo import UpsertedRows
from tidemark.staging.catalog import (
    find_columns,
    find_interfering,
    find_relation,
    find_rights,
    find_table_rights,
)
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.errors import (
    KeptRowsPruned,
    PublishedOtherwiseBefore,
    TargetKeepsRows,
    TargetLacksColumns,
    TargetRightMissing,
)
from tidemark.staging.refusal import all_deferred, naming_refusals
from tidemark.staging.target import Target, keep, refuse_unfit_table, refuse_unidentified

_COUNT = sql.SQL(
    "SELECT count(*) FROM {target} WHERE {batch_seq} > {after} AND {batch_seq} <= {up_to}"
)
_DELETE = sql.SQL("DELETE FROM {target} WHERE {batch_seq} > {after} AND {batch_seq} <= {up_to}")


@dataclass(frozen=True, slots=True)
class AppendedRows:
    """The published rows of a target, by batch."""

    target: Target
    up_to: int = MAX_BIGINT
    """The last batch that is meant; by default all are."""
    deletes: bool = True
    """Whether this role is to delete them."""

    def count_rows(self, cursor: Cursor, after_seq: int) -> int:
        """Count the rows that were published after a checkpoint.

        Raises:
            Refused: the role may not delete them, or the table has no batch_seq, or see
                `refuse_unfit_table` and `refuse_unidentified`.
        """
        if not self._is_there(cursor):
            return 0
        table = self.target.schema, self.target.table
        if self.deletes and not find_table_rights(cursor, *table).delete:
            user = find_rights(cursor, self.target.schema).user
            raise TargetRightMissing(
                target=str(self.target),
                user=user,
                action="delete rows of",
                grant=f"GRANT DELETE ON {self.target} TO {quoted(user)};",
            )
        if self.deletes:
            refuse_unidentified(cursor, self.target, deletes=True)
        return self._count(cursor, after_seq)

    def remove_rows(self, transaction: Deciding, after_seq: int) -> int:
        """Delete all rows that were published after a checkpoint; return how many.

        Raises:
            TargetRefused: a constraint of the target, a table that refers to it, a trigger or a
                rule keeps a row; or the region has published to another table.
            Refused: see `count_rows`.
        """
        cursor: Cursor = transaction.cursor
        if not self._is_there(cursor):
            return 0
        refuse_unidentified(cursor, self.target, deletes=True)
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
            raise TargetLacksColumns(target=str(target), missing=(BATCH_SEQ,))
        return True


Way = tuple[str, ...] | None
"""The key by which a batch was upserted; None: its rows were appended."""


@dataclass(frozen=True, slots=True)
class RowsOfTargets:
    """What was published to each target, and how: the ledger knows, whatever the file says now."""

    region: str
    targets: tuple[Target, ...]
    deletes: bool = True
    """Whether this role is to take them back: then it must have the right, also for a dry run."""

    def count_rows(self, cursor: Cursor, after_seq: int) -> dict[str, int]:
        """Count what was published to each target after a checkpoint; see the parts.

        Raises:
            Refused: what keys were is no longer kept; or batches after it were published in
                several ways. See also the parts.
        """
        parts = self._parts(cursor, after_seq)
        return {name: part.count_rows(cursor, after_seq) for name, part in parts.items()}

    def remove_rows(self, transaction: Deciding, after_seq: int) -> dict[str, int]:
        """Take it back, children before parents; how much of each target. See the parts.

        Deferred constraints are checked here.

        Raises:
            TargetRefused: a constraint of a target, or of a table that refers to it, keeps a row.
            Refused: see `count_rows`.
        """
        cursor = transaction.cursor
        parts, removed = self._parts(cursor, after_seq), dict[str, int]()
        with all_deferred(cursor, self.targets):
            for target in reversed(parents_first(cursor, self.targets)):
                removed[target.name] = parts[target.name].remove_rows(transaction, after_seq)
        return removed

    def _parts(self, cursor: Cursor, after_seq: int) -> Mapping[str, AppendedRows | UpsertedRows]:
        return {
            one.name: self._part(one, self._way(cursor, one, after_seq)) for one in self.targets
        }

    def _part(self, target: Target, key: Way) -> AppendedRows | UpsertedRows:
        if key:
            return UpsertedRows(self.region, target, key)
        return AppendedRows(target, deletes=self.deletes)

    def _way(self, cursor: Cursor, target: Target, after_seq: int) -> Way:
        """How all batches after a checkpoint were published to a target."""
        values = {"region": self.region, "target": target.name, "seq": after_seq}
        cursor.execute(query("published_ways"), values)
        found = cursor.fetchall() or [(0, 0, None, None)]  # the region has published nothing
        undo_pruned_seq, oldest_seq, *_ = found[0]
        if after_seq < undo_pruned_seq:
            raise KeptRowsPruned(region=self.region, target=str(target), oldest_seq=oldest_seq)
        newest, *others = [key and tuple(key) for *_, key, _ in found]
        if others:
            raise PublishedOtherwiseBefore(
                region=self.region,
                target=str(target),
                after_seq=after_seq,
                seq=found[1][-1],
                keys=(others[0], newest),
            )
        return newest
