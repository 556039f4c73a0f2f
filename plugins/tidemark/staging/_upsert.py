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

Where the last rows stand in each other's way, they go in by the order of their records. One record
may free what a later one takes: a value of a unique column, or a row that others of the table refer
to. What their batch is refused for as a whole, records do one after the other. So the rows go in
slice by slice, each as if it were a batch, and a slice that is refused is halved, down to a single
record. One that is refused alone waits: for a record of another partition, or for a later row of
its key, which supersedes it. Pass follows pass as long as that brings any in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import psycopg2
from psycopg2 import sql

from tidemark.model.batch import Batch, Moved
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor, configure, exact_texts
from tidemark.staging import upsert_sql
from tidemark.staging.catalog import find_columns, find_interfering
from tidemark.staging.column import Column
from tidemark.staging.errors import LastRowUnknown, MarkedRowsKept, RowUnplaced, Undecided
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import stored
from tidemark.staging.move import Appending, of_winners
from tidemark.staging.output_rows import keep_statement
from tidemark.staging.refusal import is_refusal, rests_on_others
from tidemark.staging.refused import Slice, halves
from tidemark.staging.target import Target
from tidemark.staging.upsert_sql import Names, commas, names_of, of_chosen

INSERT = sql.SQL("""
INSERT INTO {target} ({names}, {batch_seq})
SELECT {names}, {seq} FROM {last} AS l WHERE NOT "tidemark deleted" AND {taken}
""")
# Right whatever of the keys is there, and whoever inserts one meanwhile.
WRITE = sql.SQL(INSERT.string + "ON CONFLICT ({key}) DO UPDATE SET {set}")


def write_rows(cursor: Cursor, names: Names) -> int:
    """The target has the last rows that are not marked; how many they are.

    Raises:
        psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
    """
    cursor.execute(WRITE.format(**names))
    return cursor.rowcount


def write_new_rows(cursor: Cursor, names: Names) -> int:
    """The same where none of the keys was there a moment ago.

    If another session has inserted one since, or a row is refused, `write_rows` decides.

    Raises:
        psycopg2.Error: see `write_rows`.
    """
    cursor.execute("SAVEPOINT new_rows")
    try:
        cursor.execute(INSERT.format(**names))
        written = cursor.rowcount
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT new_rows")
        written = write_rows(cursor, names)
    cursor.execute("RELEASE SAVEPOINT new_rows")
    return written


TRIES = 5000
"""Limit of the slices that may be refused, in all passes: what no order heals is refused then."""

# In the target's own types. A row that changes nothing, as an older one of its key has a greater
# order, is left out; of a record's rows of one key all but the last.
_MAKE = sql.SQL("""
CREATE UNLOGGED TABLE {steps} AS
SELECT {names}, false AS "tidemark deleted", 0::bigint AS "tidemark place",
       0::bigint AS "tidemark next"
FROM {target} WITH NO DATA;
INSERT INTO {steps}
SELECT {names}, "tidemark deleted", "tidemark place",
       lead("tidemark place") OVER (PARTITION BY {key} ORDER BY "tidemark place")
FROM (SELECT DISTINCT ON ({key}, "tidemark place") *
      FROM (SELECT *, coalesce({deleted}, false) AS "tidemark deleted",
                   {is_best} AS "tidemark best",
                   dense_rank() OVER (ORDER BY {coordinates}) AS "tidemark place"
            FROM ({staged}) AS r
            WINDOW so_far AS (PARTITION BY {key} ORDER BY {coordinates})) AS placed
      WHERE "tidemark best" ORDER BY {key}, "tidemark place", {best_first}) AS of_records;
CREATE INDEX ON {steps} ("tidemark place");
CREATE INDEX ON {steps} ({key});
ANALYZE {steps}
""")
_COORDINATES = sql.SQL('kafka_topic COLLATE "C", kafka_partition, kafka_offset')
# Of each key the last row of a slice.
_TAKEN = sql.SQL("""(
    l."tidemark place" BETWEEN {first} AND {end} AND coalesce(l."tidemark next" > {end}, true)
)""")
_ROWS = sql.SQL("""
SELECT count(*) FROM {last} AS l WHERE NOT l."tidemark deleted" AND {taken}
""")
_DONE = sql.SQL("""
DELETE FROM {last} AS l USING (SELECT {key} FROM {last} AS l WHERE {taken}) AS t
WHERE {match} AND l."tidemark place" <= {end}
""")
_PLACES = sql.SQL('SELECT DISTINCT "tidemark place" FROM {last} ORDER BY 1')


def apply_in_order(cursor: Cursor, names: Names, *, deletes: bool) -> int | None:
    """The keys are what the last rows say; how many have a row. None: some are still refused.

    `names` are those of the upsert.
    """
    cursor.execute(_ROWS.format(**{**names, "taken": sql.SQL("true")}))
    (rows,) = cursor.fetchone() or (0,)
    try:
        steps = _Steps.of(cursor, names, deletes=deletes)
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        return None  # a superseded row has a value that is none of its column's type
    if not steps.apply():
        return None
    cursor.execute(sql.SQL("DROP TABLE {last}").format(**steps.names))
    return int(rows - steps.missing)


@dataclass(slots=True)
class _Steps:
    """The batch's rows by the places of their records; those that went in are gone from it."""

    cursor: Cursor
    names: Names
    """As of an upsert whose last rows are those that are left."""
    deletes: bool
    tries: int
    missing: int = 0
    """Rows that the target took and does not have: a trigger keeps them out."""

    @classmethod
    def of(cls, cursor: Cursor, names: Names, *, deletes: bool) -> "_Steps":
        """All rows that change something."""
        cursor.execute(_MAKE.format(**names, coordinates=_COORDINATES))
        of_steps = {**names, "last": names["steps"]}
        if "stored_is_newer" in names:
            cursor.execute(upsert_sql.NEWER.format(**of_steps))
            cursor.execute(upsert_sql.NEWER_DELETED.format(**of_steps))
        return cls(cursor, of_steps, deletes, TRIES)

    def apply(self) -> bool:
        """Pass after pass, until all went in or a pass brings none in."""
        left = self._places()
        slices = halves(left)
        while left and self.tries > 0:
            known = len(left)
            self._pass(slices)
            left = self._places()
            if len(left) == known:
                break
            slices = [left]
        return not left

    def _pass(self, slices: list[Slice]) -> None:
        while slices and self.tries > 0:
            some = slices.pop()
            if self._applied(some):
                continue
            self.tries -= 1
            if len(some) > 1:
                slices += halves(some)

    def _applied(self, some: Slice) -> bool:
        """Whether the rows of these places went in."""
        first, end = sql.Literal(some[0]), sql.Literal(some[-1])
        names = {**self.names, "taken": _TAKEN.format(first=first, end=end), "end": end}
        self.cursor.execute("SAVEPOINT step")
        try:
            missing = self._write(names)
        except psycopg2.Error as error:
            if not is_refusal(error):
                raise
            self.cursor.execute("ROLLBACK TO SAVEPOINT step; RELEASE SAVEPOINT step")
            return False
        self.cursor.execute("RELEASE SAVEPOINT step")
        self.cursor.execute(_DONE.format(**names))
        self.missing += missing
        return True

    def _write(self, names: Names) -> int:
        self.cursor.execute(_ROWS.format(**names))
        (rows,) = self.cursor.fetchone() or (0,)
        if self.deletes:
            self.cursor.execute(upsert_sql.DELETE.format(**names))
        return int(rows - write_rows(self.cursor, names))

    def _places(self) -> list[int]:
        self.cursor.execute(_PLACES.format(**self.names))
        return [place for (place,) in self.cursor.fetchall()]


class Upserting:
    """One batch and the target that it is upserted into."""

    is_final = False  # without a refused row its key has the one before it

    def __init__(
        self,
        cursor: Cursor,
        batch: Batch,
        *,
        target: Target,
        columns: Sequence[Column],
        upsert: Upsert,
        winners: Sequence[tuple[int, int]],
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
        exact_texts(self._cursor)  # the target's triggers may have set others
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
        taken = Appending(
            self._cursor, self._batch, target=trial, columns=columns, winners=self._winners
        )
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
