"""Put back what upserts changed of a target after a checkpoint, for a rewind.

Each key is again what it was at the checkpoint. The oldest that the ledger keeps of a key after the
checkpoint is what it was then; a key that changed since and of which it keeps nothing older was not
there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql

from tidemark.model.batch import STAGING_SCHEMA
from tidemark.postgres.session import Cursor, exact_texts
from tidemark.protocol.ports import Deciding
from tidemark.staging._kept_texts import kept_text, refuse_altered, value_of
from tidemark.staging._references import find_acting_keys
from tidemark.staging.catalog import TableColumn, find_columns, find_interfering, find_relation
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.errors import (
    KeptRowsHaveOtherColumns,
    KeysChangedByOthers,
    KeysInTheWay,
    KeysNotPutBack,
    KeysRenumbered,
    TargetLacksColumns,
)
from tidemark.staging.keyed import refuse_without_index
from tidemark.staging.refusal import naming_refusals, rests_on_others, target_refused
from tidemark.staging.target import Target, keep, refuse_unfit_table, refuse_unidentified
from tidemark.staging.upsert_sql import Names, commas, excluded, of_target

OLDEST = sql.SQL("""
SELECT DISTINCT ON (u.key) u.key, u.seq, u.before_seq, u.was_deleted, u.before,
       max(u.seq) OVER (PARTITION BY u.key) AS newest_seq
FROM tidemark.undo u WHERE u.region = {region} AND u.target = {name} AND u.seq > {seq}
ORDER BY u.key, u.seq
""")
# A change is kept of each key that was there; the first one of another key shows in what is there.
CHANGES = sql.SQL("""
WITH oldest AS ({oldest}), here AS (
    SELECT {target_key} AS key, t.{batch_seq} AS seq FROM {target} AS t WHERE t.{batch_seq} > {seq}
    UNION ALL
    SELECT d.key, d.seq FROM tidemark.deleted_keys d
    WHERE d.region = {region} AND d.target = {name} AND d.seq > {seq}
)
SELECT (SELECT count(*) FROM tidemark.undo u
        WHERE u.region = {region} AND u.target = {name} AND u.seq > {seq})
       + (SELECT count(*) FROM oldest WHERE before_seq > {seq})
       + (SELECT count(*) FROM here LEFT JOIN oldest USING (key) WHERE oldest.key IS NULL),
       (SELECT count(*) FROM oldest o LEFT JOIN here h ON h.key = o.key AND h.seq = o.newest_seq
        WHERE h.key IS NULL)
""")
UNDONE = sql.SQL("""
(SELECT o.*, o.before_seq <= {seq} AND NOT o.was_deleted AS is_row FROM ({oldest}) o)
""")
MAKE = sql.SQL("CREATE UNLOGGED TABLE {undone} AS SELECT * FROM {kept_rows} AS u")
# The columns that the target had when the rows were kept; more than one row if it changed since.
SHAPES = sql.SQL("""
SELECT c.columns, array_agg(u.seq) FROM (SELECT DISTINCT seq FROM {undone} AS o WHERE is_row) u
JOIN tidemark.undo_columns c
    ON c.region = {region} AND c.target = {name} AND c.seq = u.seq GROUP BY c.columns
""")
TO_RESTORE = sql.SQL("SELECT count(*) FROM {undone} WHERE is_row")
# Parts of one statement, at the end of which references are checked: by then all is what it was.
WAITS = sql.SQL("(SELECT count(*) FROM gone) >= 0")
# Rows that were not there; and those whose number no UPDATE can set (GENERATED ALWAYS AS IDENTITY).
REMOVE = sql.SQL("""
DELETE FROM {target} AS t WHERE t.{batch_seq} > {seq} AND NOT EXISTS (
    SELECT FROM {undone} AS u
    WHERE u.key = {target_key} AND u.is_row AND NOT ({is_renumbered}))
""")
IS_RENUMBERED = sql.SQL("u.seq = ANY ({seqs}) AND ({others})")
RENUMBERED = sql.SQL("""
SELECT count(*) FROM {undone} AS u JOIN {target} AS t ON u.key = {target_key}
WHERE u.is_row AND ({is_renumbered})
""")
RESTORE = sql.SQL("""
INSERT INTO {target} ({kept}) OVERRIDING SYSTEM VALUE
SELECT {before} FROM {undone} AS u WHERE u.is_row AND u.seq = ANY ({seqs}) AND {waits}
ON CONFLICT ({key}) DO UPDATE SET {set} RETURNING 1
""")
# The same where rows stand in each other's way, such as two that have swapped a unique value: none
# of them is there when the first one comes back. What is not kept of a row stays as it is now.
REMOVE_ALL = sql.SQL("DELETE FROM {target} AS t WHERE t.{batch_seq} > {seq}")
RESTORE_CHANGED = sql.SQL("""
INSERT INTO {target} ({kept}{new}) OVERRIDING SYSTEM VALUE
SELECT {before}{now} FROM {undone} AS u JOIN {target} AS t ON u.key = {target_key}
WHERE u.is_row AND u.seq = ANY ({seqs}) AND {waits} RETURNING 1
""")
RESTORE_DELETED = sql.SQL("""
INSERT INTO {target} ({kept}) OVERRIDING SYSTEM VALUE
SELECT {before} FROM {undone} AS u
WHERE u.is_row AND u.seq = ANY ({seqs}) AND {waits}
  AND NOT EXISTS (SELECT FROM {target} AS t WHERE u.key = {target_key}) RETURNING 1
""")
# What was put back may say to be of any batch.
LEFT = sql.SQL("""
SELECT count(*) FROM {target} AS t WHERE t.{batch_seq} > {seq} AND NOT EXISTS (
    SELECT FROM {undone} AS u
    WHERE u.key = {target_key} AND u.is_row)
""")
OF_LEDGER = sql.SQL("""
DELETE FROM tidemark.deleted_keys d
WHERE d.region = {region} AND d.target = {name} AND d.seq > {seq};
INSERT INTO tidemark.deleted_keys (region, target, key, seq, topic, partition, order_by)
SELECT {region}, {name}, u.key, u.before_seq, u.before[1], u.before[2]::int, u.before[3]
FROM {undone} AS u WHERE u.was_deleted AND u.before_seq <= {seq};
DELETE FROM tidemark.undo u WHERE u.region = {region} AND u.target = {name} AND u.seq > {seq};
DELETE FROM tidemark.undo_columns c
WHERE c.region = {region} AND c.target = {name} AND c.seq > {seq};
DROP TABLE {undone}
""")


@dataclass(frozen=True, slots=True)
class UpsertedRows:
    """The rows of a target that a region upserts into, and what they were before."""

    region: str
    target: Target
    key: tuple[str, ...]

    def count_rows(self, cursor: Cursor, after_seq: int) -> int:
        """Count the changes of keys that were published after a checkpoint.

        Raises:
            Refused: somebody else changed a key, or what was kept can't be put back as it was.
            SchemaMismatch: the table has lost its unique index on the key.
        """
        cursor.execute("BEGIN")
        try:
            names = self._names(cursor, after_seq)
            if names is None:
                return 0
            self._shapes(cursor, {**names, "undone": names["kept_rows"]})
            return self._changes(cursor, names, after_seq)
        finally:
            cursor.execute("ROLLBACK")

    def remove_rows(self, transaction: Deciding, after_seq: int) -> int:
        """Each key is as it was at a checkpoint; return how many changes that took back.

        Raises:
            Refused: see `count_rows`.
            TargetRefused: a constraint of the target, a table that refers to it or a trigger keeps
                a row, or a foreign key would change rows of another table; or the region has
                published to another table.
        """
        cursor = transaction.cursor
        names = self._names(cursor, after_seq)
        if names is None:
            return 0
        changes = self._changes(cursor, names, after_seq)
        with naming_refusals([self.target]):
            self._put_back(cursor, names)
        keep(transaction, self.target)
        cursor.execute(OF_LEDGER.format(**names))
        return changes

    def _put_back(self, cursor: Cursor, names: Names) -> None:
        cursor.execute(MAKE.format(**names))
        cursor.execute(sql.SQL("ANALYZE {undone}").format(**names))
        cursor.execute(TO_RESTORE.format(**names))
        (missing,) = cursor.fetchone() or (0,)
        shapes = self._shapes(cursor, names)
        self._refuse_renumbered(cursor, names, shapes)
        missing -= self._restore(cursor, names, shapes)
        cursor.execute(LEFT.format(**names))
        (left,) = cursor.fetchone() or (0,)
        if left or missing:
            raise self._kept(cursor, left, missing)

    def _restore(self, cursor: Cursor, names: Names, shapes: Sequence[Names]) -> int:
        """The rows are what they were; how many came back.

        Raises:
            TargetRefused: a foreign key would change rows of another table.
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """
        remove = REMOVE.format(**names, is_renumbered=_is_renumbered(shapes))
        cursor.execute("SAVEPOINT put_back")
        try:
            restored = _run(cursor, remove, [RESTORE.format(**shape) for shape in shapes])
        except psycopg2.Error as error:
            if not rests_on_others(error):
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT put_back")
            self._refuse_acting(cursor, error)
            parts = RESTORE_CHANGED, RESTORE_DELETED
            inserts = [part.format(**shape) for shape in shapes for part in parts]
            restored = _run(cursor, REMOVE_ALL.format(**names), inserts)
        cursor.execute("RELEASE SAVEPOINT put_back")
        return restored

    def _refuse_renumbered(self, cursor: Cursor, names: Names, shapes: Sequence[Names]) -> None:
        """Refuse to delete rows for their numbers where foreign keys would change others."""
        if not shapes or not (acting := find_acting_keys(cursor, self.target)):
            return
        is_renumbered = _is_renumbered(shapes)
        cursor.execute(RENUMBERED.format(**names, is_renumbered=is_renumbered))
        (keys,) = cursor.fetchone() or (0,)
        if keys:
            raise KeysRenumbered(target=str(self.target), keys=keys, acting=acting)

    def _refuse_acting(self, cursor: Cursor, error: psycopg2.Error) -> None:
        if acting := find_acting_keys(cursor, self.target):
            guard = target_refused(error, [self.target]).guard
            # not chained: the DETAIL of the server's error quotes the row
            raise KeysInTheWay(target=str(self.target), guard=guard, acting=acting) from None

    def _shapes(self, cursor: Cursor, names: Names) -> list[Names]:
        """The names for the rows that were kept, by the columns that the target had then."""
        cursor.execute(SHAPES.format(**names))
        return [{**names, **self._shape(cursor, names, *one)} for one in cursor.fetchall()]

    def _shape(
        self, cursor: Cursor, names: Names, columns: Sequence[str], seqs: Sequence[int]
    ) -> Names:
        """The names for rows that were kept when the target had these columns.

        A column that it got since is left as it is, or has its default in a row that comes back.

        Raises:
            Refused: the target lost a column and got one: what was kept may be of a renamed one; or
                see `refuse_altered`.
        """
        table = find_columns(cursor, self.target.schema, self.target.table)
        kept = [own for own in table if own.name in columns and not own.generated]
        lost = set(columns) - {own.name for own in table}
        new = [own.name for own in table if not own.generated and own.name not in columns]
        if lost and new:
            raise KeptRowsHaveOtherColumns(
                target=str(self.target), lost=tuple(sorted(lost)), got=tuple(sorted(new))
            )
        texts = {own.name: kept_text(columns, own.name) for own in kept}
        of_shape = {"undone": names["undone"], "seqs": sql.Literal(seqs)}
        refuse_altered(cursor, str(self.target), of_shape, kept, texts)
        before = {own.name: value_of(texts[own.name], own) for own in kept}
        numbered = [own.name for own in kept if own.identity == "a"]
        return {
            "seqs": sql.Literal(seqs),
            "kept": commas(map(sql.Identifier, before)),
            "before": commas(before.values()),
            "new": _more(sql.Identifier(name) for name in new),
            "now": _more(sql.Identifier("t", name) for name in new),
            "set": excluded((name for name in before if name not in numbered), self.key),
            "others": _any_differs(numbered, before),
            "waits": WAITS,
        }

    def _changes(self, cursor: Cursor, names: Names, after_seq: int) -> int:
        cursor.execute(CHANGES.format(**names))
        changes, altered = cursor.fetchone() or (0, 0)
        if altered:
            raise KeysChangedByOthers(target=str(self.target), after_seq=after_seq, keys=altered)
        return int(changes)

    def _kept(self, cursor: Cursor, left: int, missing: int) -> KeysNotPutBack:
        events = "DELETE", "UPDATE", "INSERT"
        by = find_interfering(cursor, self.target.schema, self.target.table, *events)
        return KeysNotPutBack(target=str(self.target), left=left, missing=missing, by=tuple(by))

    def _names(self, cursor: Cursor, after_seq: int) -> Names | None:
        """The names in the statements; None if there is no such table.

        Raises:
            Refused: the table lacks batch_seq, the ledger has forgotten the undo, or see
                `refuse_unfit_table` and `refuse_unidentified`.
            SchemaMismatch: it has no unique index on the key.
        """
        relation = find_relation(cursor, self.target.schema, self.target.table)
        if relation is None:
            return None
        refuse_unfit_table(cursor, self.target, relation)
        table = find_columns(cursor, self.target.schema, self.target.table)
        if missing := {*self.key, BATCH_SEQ} - {own.name for own in table}:
            raise TargetLacksColumns(target=str(self.target), missing=tuple(sorted(missing)))
        refuse_without_index(cursor, self.target, self.key)
        refuse_unidentified(cursor, self.target, deletes=True, updates=True)
        exact_texts(cursor)
        return self._named(table, after_seq)

    def _named(self, table: Sequence[TableColumn], after_seq: int) -> Names:
        names: Names = {
            **of_target(self.target, self.key, table),
            "undone": sql.Identifier(STAGING_SCHEMA, f"{self.region}_undone"),
            "region": sql.Literal(self.region),
            "seq": sql.Literal(after_seq),
        }
        names["oldest"] = OLDEST.format(**names)
        return {**names, "kept_rows": UNDONE.format(**names)}


def _any_differs(names: Sequence[str], before: Mapping[str, sql.Composable]) -> sql.Composable:
    """Whether the target's row differs from the kept one in a column; false if there is none."""
    differ = [sql.SQL("t.{} <> {}").format(sql.Identifier(name), before[name]) for name in names]
    return sql.SQL(" OR ").join(differ) if differ else sql.SQL("false")


def _is_renumbered(shapes: Sequence[Names]) -> sql.Composable:
    renumbered = [IS_RENUMBERED.format(**shape) for shape in shapes]
    return sql.SQL(" OR ").join(renumbered) if renumbered else sql.SQL("false")


def _run(cursor: Cursor, remove: sql.Composable, inserts: Sequence[sql.Composable]) -> int:
    """How many rows were inserted or updated behind the deletions, in one statement."""
    parts: list[sql.Composable] = [sql.SQL("gone AS ({} RETURNING 1)").format(remove)]
    counts: list[sql.Composable] = [sql.SQL("0")]
    for number, insert in enumerate(inserts):
        name = sql.Identifier(f"part {number}")
        parts.append(sql.SQL("{} AS ({})").format(name, insert))
        counts.append(sql.SQL("(SELECT count(*) FROM {})").format(name))
    statement = sql.SQL("WITH {} SELECT {}").format(commas(parts), sql.SQL(" + ").join(counts))
    cursor.execute(statement)
    return int((cursor.fetchone() or (0,))[0])


def _more(parts: Iterable[sql.Composable]) -> sql.Composed:
    """The parts, each behind a comma."""
    return sql.Composed([sql.SQL(", {}").format(part) for part in parts])
