"""The statements that take an upsert back."""

from psycopg2 import sql

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
MAKE = sql.SQL("""
CREATE UNLOGGED TABLE {undone} AS
SELECT o.*, o.before_seq <= {seq} AND NOT o.was_deleted AS is_row FROM ({oldest}) o
""")
# The columns that the target had when the rows were kept; more than one row if it changed since.
SHAPES = sql.SQL("""
SELECT c.columns, array_agg(u.seq) FROM (SELECT DISTINCT seq FROM {undone} WHERE is_row) u
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
