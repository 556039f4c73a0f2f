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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import psycopg2
from psycopg2 import sql

from tidemark.model.batch import Batch, Moved
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor, exact_texts
from tidemark.staging import upsert_sql
from tidemark.staging.catalog import find_columns, find_interfering
from tidemark.staging.column import Column
from tidemark.staging.errors import (
    KeysAltered,
    LastRowUnknown,
    MarkedRowsKept,
    RowUnplaced,
    Undecided,
)
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import stored
from tidemark.staging.move import Appending, of_winners
from tidemark.staging.output_rows import keep_statement
from tidemark.staging.refusal import is_refusal, rests_on_others
from tidemark.staging.refused import Slice, halves
from tidemark.staging.target import Target
from tidemark.staging.upsert_sql import Names, commas, names_of, of_chosen

EVERYTHING = sql.SQL("true")


class KeysWrittenMeanwhile(Exception):
    """Another session has written to keys of the batch after what they were was kept.

    Roll back to before `prepare`, and begin anew: then what it wrote is kept, too.
    """


def write_rows(cursor: Cursor, names: Names) -> tuple[int, int]:
    """The target has the last rows that are not marked; how many were there, and how many not.

    One that another session has inserted since the statement began is neither.

    Raises:
        psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
    """
    insert = upsert_sql.INSERT.format(**names)
    found = {"is_there": upsert_sql.IS_THERE, "is_new": upsert_sql.IS_NEW}
    named = {of: condition.format(**names) for of, condition in found.items()} | names
    cursor.execute(upsert_sql.WRITE.format(**named, insert=insert))
    changed, added = cursor.fetchone() or (0, 0)
    return changed, added


FEW = 10_000
"""So many new keys a statement names by their rows' places; of more, a join tells them."""


def write_few_new_rows(cursor: Cursor, names: Names) -> tuple[int, int]:
    """The same where few keys are new."""
    new = upsert_sql.IS_NEW.format(**names)
    cursor.execute(upsert_sql.NEW_ROWS.format(**names, is_new=new))
    (places,) = cursor.fetchone() or ("{}",)
    at = sql.SQL("{}::tid[]").format(sql.Literal(places))
    is_other, is_new = upsert_sql.IS_OTHER.format(at=at), upsert_sql.AT.format(at=at)
    return write_rows(cursor, {**names, "is_there": is_other, "is_new": is_new})


def write_held_rows(cursor: Cursor, names: Names) -> tuple[int, int]:
    """The same where rows of all keys are held: nobody else can insert one."""
    cursor.execute(upsert_sql.WRITE_HELD.format(**names, insert=upsert_sql.INSERT.format(**names)))
    return cursor.rowcount, 0


def write_new_rows(cursor: Cursor, names: Names) -> tuple[int, int]:
    """The same where none of the keys was there a moment ago.

    If another session has inserted one since, or a row is refused, `write_rows` decides.
    """
    cursor.execute("SAVEPOINT new_rows")
    try:
        cursor.execute(upsert_sql.INSERT.format(**names))
        written = 0, cursor.rowcount
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT new_rows")
        written = write_rows(cursor, names)
    cursor.execute("RELEASE SAVEPOINT new_rows")
    return written


def write_some(cursor: Cursor, names: Names, *, deletes: bool) -> tuple[int, int]:
    """Of some of the last rows, how many are to be there, and how many of them are.

    Only rows that are the batch's by what was kept of them, or that it wrote, are touched.

    Raises:
        KeysWrittenMeanwhile: another row is in the way.
        psycopg2.Error: see `write_rows`.
    """
    exact_texts(cursor)
    names = {**names, "is_ours": names["is_of_batch"]}
    cursor.execute(upsert_sql.TO_WRITE.format(**names))
    (rows,) = cursor.fetchone() or (0,)
    if deletes:
        cursor.execute(upsert_sql.DELETE.format(**names))
    written = sum(write_rows(cursor, names))
    if written < rows:
        refuse_foreign(cursor, names)
    return rows, written


def refuse_foreign(cursor: Cursor, names: Names) -> None:
    """Rows of the batch's keys that are there are its own."""
    exact_texts(cursor)  # the target's triggers may have set others
    cursor.execute(upsert_sql.FOREIGN.format(**names))
    if cursor.fetchone() != (0,):
        raise KeysWrittenMeanwhile


TRIES = 5000
"""Limit of the slices that may be refused, in all passes: what no order heals is refused then."""

# In the target's own types, keys by a number: an index has no room for a long one. A row that
# changes nothing, as an older one of its key has a greater order, is left out; of a record's rows
# of one key all but the last.
_MAKE = sql.SQL("""
CREATE UNLOGGED TABLE {steps} AS
SELECT {names}, false AS "tidemark deleted", 0::bigint AS "tidemark place",
       0::bigint AS "tidemark next", 0::bigint AS "tidemark key"
FROM {target} WITH NO DATA;
INSERT INTO {steps}
SELECT {names}, "tidemark deleted", "tidemark place",
       lead("tidemark place") OVER (PARTITION BY {key} ORDER BY "tidemark place"),
       dense_rank() OVER (ORDER BY {key})
FROM (SELECT DISTINCT ON ({key}, "tidemark place") *
      FROM (SELECT *, coalesce({deleted}, false) AS "tidemark deleted",
                   {is_best} AS "tidemark best",
                   dense_rank() OVER (ORDER BY {coordinates}) AS "tidemark place"
            FROM ({staged}) AS r
            WINDOW so_far AS (PARTITION BY {key} ORDER BY {coordinates})) AS placed
      WHERE "tidemark best" ORDER BY {key}, "tidemark place", {best_first}) AS of_records;
CREATE INDEX ON {steps} ("tidemark place");
CREATE INDEX ON {steps} ("tidemark key");
ANALYZE {steps}
""")
_COORDINATES = sql.SQL('kafka_topic COLLATE "C", kafka_partition, kafka_offset')
# Of each key the last row of a slice.
_TAKEN = sql.SQL("""(
    l."tidemark place" BETWEEN {first} AND {end} AND coalesce(l."tidemark next" > {end}, true)
)""")
_DONE = sql.SQL("""
DELETE FROM {last} AS l USING (SELECT "tidemark key" FROM {last} AS l WHERE {taken}) AS t
WHERE l."tidemark key" = t."tidemark key" AND l."tidemark place" <= {end}
""")
_PLACES = sql.SQL('SELECT DISTINCT "tidemark place" FROM {last} ORDER BY 1')


def apply_in_order(cursor: Cursor, names: Names, *, deletes: bool) -> int | None:
    """The keys are what the last rows say; how many have a row. None: some are still refused.

    `names` are those of the upsert.
    """
    cursor.execute(upsert_sql.TO_WRITE.format(**{**names, "taken": EVERYTHING}))
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
            rows, written = write_some(self.cursor, names, deletes=self.deletes)
        except psycopg2.Error as error:
            if not is_refusal(error):
                raise
            self.cursor.execute("ROLLBACK TO SAVEPOINT step; RELEASE SAVEPOINT step")
            return False
        self.cursor.execute("RELEASE SAVEPOINT step")
        self.cursor.execute(_DONE.format(**names))
        self.missing += rows - written
        return True

    def _places(self) -> list[int]:
        self.cursor.execute(_PLACES.format(**self.names))
        return [place for (place,) in self.cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class _Keys:
    """How many keys of a batch; and of how many the last row is not marked."""

    all: int = 0
    stay: int = 0

    def __sub__(self, others: "_Keys") -> "_Keys":
        return _Keys(self.all - others.all, self.stay - others.stay)


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
        self._wanted: sql.Composable = EVERYTHING
        self._superseded = 0
        self._last = _Keys()
        self._held = _Keys()

    def prepare(self, wanted: sql.Composable) -> None:
        """Find each key's last row, and keep what the key was.

        Raises:
            RowUnplaced: a row has no key, or no order.
            TargetRefused: what decides a key's last row contradicts itself.
            KeysWrittenMeanwhile: another session wrote to one of the keys while this looked.
            psycopg2.Error: the target's types refuse a row if `is_refusal` is true of it.
        """
        self._wanted = wanted
        chosen = sql.SQL("{} AND {}").format(of_winners(self._winners), wanted)
        self._names = of_chosen(self._names, chosen)
        staged, self._last = self._find_last()
        moved, *held = self._counts(upsert_sql.HELD)
        self._held = _Keys(*held)
        if self._upsert.order_by is None:
            self._refuse_other_partitions(moved)
        else:
            self._leave_newer()
        self._superseded = staged - self._last.all
        self._keep_undo()

    def places(self) -> sql.Composed:
        return upsert_sql.PLACES.format(**self._names)

    def apply(self, at: sql.Composable | None = None) -> int:
        """Delete the keys whose last row is marked, upsert the others; how many are upserted.

        All of them go in together, or else in the order of their records.

        Raises:
            KeysWrittenMeanwhile: another session has written to one of the keys.
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """
        if at is not None:
            self._names["taken"] = upsert_sql.AT.format(at=at)
            return write_some(self._cursor, self._names, deletes=self._deletes)[1]
        self._cursor.execute("SAVEPOINT last_rows")
        try:
            written = self._write()
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
        return apply_in_order(self._cursor, self._names, deletes=self._deletes)

    @property
    def _deletes(self) -> bool:
        return self._upsert.deleted is not None

    def _write(self) -> int:
        """Write all; the counts tell whether rows were touched of which nothing was kept."""
        self._names |= {"taken": EVERYTHING, "is_ours": EVERYTHING}
        gone = self._do(upsert_sql.DELETE) if self._deletes else 0
        changed, added = self._how_to_write()(self._cursor, self._names)
        if gone + changed > self._held.all:
            raise KeysWrittenMeanwhile
        if gone + changed < self._held.all or changed + added < self._last.stay:
            refuse_foreign(self._cursor, self._names)
        return changed + added

    def _how_to_write(self) -> Callable[[Cursor, Names], tuple[int, int]]:
        new = self._last.stay - self._held.stay
        if not new:
            return write_held_rows
        if not self._held.all:
            return write_new_rows
        return write_few_new_rows if new <= FEW else write_rows

    def finish(self, written: int) -> Moved:
        """The ledger knows what the keys are now.

        Raises:
            TargetRefused: the target keeps a row that is to be deleted, or gives a row another key.
            KeysWrittenMeanwhile: another session has inserted one that is to be deleted.
        """
        exact_texts(self._cursor)  # the target's triggers may have set others
        self._refuse_other_keys(written)
        deleted = self._keep_deleted()
        if self._is_sent:
            self._cursor.execute(keep_statement(self._names, self._table, self._upsert.key))
        self._do(upsert_sql.CAME_BACK)
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

    def _find_last(self) -> "tuple[int, _Keys]":
        """Find each key's last row; how many rows are staged, and how many are the last of a key.

        Raises:
            RowUnplaced, TargetRefused: it is not known which row is the last one.
        """
        exact_texts(self._cursor, {"default_statistics_target": "10"})
        staged, last, stay, *counts = self._counts(upsert_sql.FIND_LAST)
        for count, why in zip(counts, Undecided, strict=True):
            if count:
                raise self._unknown(count, why)
        return staged, _Keys(last, stay)

    def _refuse_other_partitions(self, moved: int) -> None:
        """Without an order, what is stored of a key came from its partition."""
        (moved_deleted,) = self._counts(upsert_sql.MOVED_DELETED)
        if moved + moved_deleted:
            raise self._unknown(moved + moved_deleted, Undecided.in_two_partitions)

    def _leave_newer(self) -> None:
        """Leave out what is older than a row that is there, or than a deletion."""
        than_rows = _Keys(*self._counts(upsert_sql.NEWER))
        than_deletions = _Keys(*self._counts(upsert_sql.NEWER_DELETED))
        self._held -= than_rows
        self._last = self._last - than_rows - than_deletions

    def _keep_undo(self) -> None:
        if self._held.all and self._do(upsert_sql.UNDO) != self._held.all:
            raise KeysWrittenMeanwhile
        self._do(upsert_sql.UNDO_OTHERS)

    def _keep_deleted(self) -> int:
        """The ledger knows the keys whose last row is marked; how many there are."""
        if self._upsert.deleted is None:
            return 0
        (left,) = self._counts(upsert_sql.LEFT)
        if left:
            refuse_foreign(self._cursor, self._names)
            found = find_interfering(self._cursor, self.target.schema, self.target.table, "DELETE")
            raise MarkedRowsKept(
                target=str(self.target),
                key=self._upsert.key,
                seq=self._batch.seq,
                rows=left,
                by=tuple(found),
            )
        return self._do(upsert_sql.KEEP_DELETED)

    def _refuse_other_keys(self, written: int) -> None:
        """The rows are found by their keys; only a trigger can have changed them."""
        where = self.target.schema, self.target.table
        by = find_interfering(self._cursor, *where, "INSERT", "UPDATE")
        if not by:
            return
        (found,) = self._counts(upsert_sql.WRITTEN)
        if found != written:
            raise KeysAltered(
                target=str(self.target),
                key=self._upsert.key,
                seq=self._batch.seq,
                rows=written - found,
                by=tuple(by),
            )

    def _unknown(self, keys: int, why: Undecided) -> LastRowUnknown:
        is_unplaced = why in (Undecided.null_key, Undecided.null_order)
        kind = RowUnplaced if is_unplaced else LastRowUnknown
        return kind(
            target=str(self.target), key=self._upsert.key, seq=self._batch.seq, keys=keys, why=why
        )

    def _counts(self, statement: sql.SQL) -> tuple[int, ...]:
        self._do(statement)
        return self._cursor.fetchone() or ()

    def _do(self, statement: sql.SQL) -> int:
        self._cursor.execute(statement.format(**self._names))
        return self._cursor.rowcount
