"""Upsert: of each key the target holds the last row, or none; inside the publish.

1 last      each key's last staged row, in a table that lives as long as the transaction
2 refuse    a key that is null, has no order, or lies in two partitions; a record of another batch
3 older     keys of which the target holds a newer row are left alone (with order_by alone)
4 undo      what each key was before is kept in the ledger, for a rewind
5 apply     delete the deleted, upsert the others; count both by what the statements did
6 outbox    where rows are sent to a topic, keep what each key is now, or that it is gone
"""

from collections.abc import Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import TargetRefused
from tidemark.model.batch import Batch, Moved
from tidemark.model.upsert import Upsert
from tidemark.postgres.queries import query
from tidemark.postgres.session import configure
from tidemark.staging import upsert_sql
from tidemark.staging.catalog import find_columns, find_interfering
from tidemark.staging.column import Column
from tidemark.staging.outbox import keep_statement
from tidemark.staging.target import Target
from tidemark.staging.upsert_names import exact_texts, names_of


class Upserting:
    """One batch and the target that it is upserted into."""

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
        self._is_sent = is_sent
        self._cursor = cursor
        self._batch = batch
        self._target = target
        self._upsert = upsert
        self._table = find_columns(cursor, target.schema, target.table)
        self._names = names_of(batch, target, columns, upsert, self._table, winners)

    def move(self) -> Moved:
        """Upsert the winners' rows; return what became of them, counted by the statements.

        Raises:
            TargetRefused: what decides a key's last row is missing or contradicts itself, or the
                target keeps a row that is to be deleted.
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """
        exact_texts(self._cursor)
        staged = self._find_last()
        if self._upsert.order_by is None:
            self._refuse_other_partitions()
        else:
            self._leave_newer()
        (changed,) = self._counts(sql.SQL("SELECT count(*) FROM {last}"))
        self._keep_undo()
        deleted = self._delete()
        moved = Moved(self._write(), deleted=deleted, superseded=staged - changed)
        if self._is_sent:
            self._cursor.execute(keep_statement(self._names, self._table, self._upsert.key))
        self._do(sql.SQL("DROP TABLE {last}"))
        return moved

    def _find_last(self) -> int:
        """Find each key's last row; how many rows are staged.

        Raises:
            TargetRefused: it is not known which row is the last one.
        """
        self._do(upsert_sql.MAKE_LAST)
        self._do(upsert_sql.FILL_LAST)
        configure(self._cursor, {"default_statistics_target": "10"}, is_local=True)
        self._do(sql.SQL("ANALYZE {last} ({key})"))
        staged, *counts = self._counts(upsert_sql.UNDECIDED)
        for count, (what, remedy) in zip(counts, _UNDECIDED, strict=True):
            if count:
                raise self._refused(f"{count} keys {what}", remedy)
        return staged

    def _refuse_other_partitions(self) -> None:
        """Without an order, what is stored of a key came from the same partition."""
        stored = self._counts(upsert_sql.MOVED) + self._counts(upsert_sql.MOVED_DELETED)
        if any(stored):
            raise self._refused(f"{sum(stored)} keys {_SPLIT}", _ORDER)

    def _leave_newer(self) -> None:
        self._do(upsert_sql.NEWER)
        self._do(upsert_sql.NEWER_DELETED)

    def _keep_undo(self) -> None:
        self._do(upsert_sql.UNDO)
        self._do(upsert_sql.UNDO_COLUMNS)
        self._do(upsert_sql.UNDO_DELETED)
        self._count_overwritten()

    def _count_overwritten(self) -> None:
        values = {
            "region": self._batch.region,
            "target": self._target.name,
            "seq": self._batch.seq,
        }
        self._cursor.execute(query("count_overwritten"), values)

    def _delete(self) -> int:
        """Delete the keys whose last row is marked; how many there are."""
        if self._upsert.deleted is None:
            return 0
        self._do(upsert_sql.DELETE)
        (left,) = self._counts(upsert_sql.LEFT)
        if left:
            found = find_interfering(
                self._cursor, self._target.schema, self._target.table, "DELETE"
            )
            by = ", ".join(found) or "a trigger or a rule of it"
            raise self._refused(
                f"{left} rows that are marked as deleted are kept by {by}", "Let it return OLD"
            )
        return self._do(upsert_sql.KEEP_DELETED)

    def _write(self) -> int:
        """Upsert the other keys; how many rows that inserted or updated."""
        self._do(upsert_sql.CAME_BACK)
        return self._do(upsert_sql.WRITE)

    def _refused(self, what: str, remedy: str) -> TargetRefused:
        key = ", ".join(self._upsert.key)
        return TargetRefused(
            f"{self._target} by key ({key}): {what}; nothing of batch {self._batch.seq} is"
            f" published. {remedy}, then run again"
        )

    def _counts(self, statement: sql.SQL) -> tuple[int, ...]:
        self._do(statement)
        return self._cursor.fetchone() or ()

    def _do(self, statement: sql.SQL) -> int:
        self._cursor.execute(statement.format(**self._names))
        return self._cursor.rowcount


_SPLIT = "were met in two partitions, so which of their rows is the last is not known"
_ORDER = (
    "Set target.order_by (a new run then needs --accept-changes), or key the topic's records by"
    " the same columns"
)
_UNDECIDED = (
    ("have a null in a column of the key", "Filter such rows in the transform"),
    ("have a null in order_by", "Give each row a value in the transform"),
    ("have two last rows of one record", "Let the transform return one row a key of each record"),
    (_SPLIT, _ORDER),
    (
        "have a last row whose kafka_topic, kafka_partition and kafka_offset are those of no record"
        " of the batch",
        "Keep these columns unchanged in the transform",
    ),
)
"""What keeps a key's last row from being known, in the order of the query's counts."""
