"""The statements of an upsert."""

from psycopg2 import sql

# In the target's own types: its collations too.
MAKE_LAST = sql.SQL("""
CREATE UNLOGGED TABLE {last} AS
SELECT {names}, false AS "tidemark deleted", NULL::tid AS "tidemark at" FROM {target} WITH NO DATA
""")
# Else the rows of the winners are taken for a few, which are met with the last ones one by one.
KNOW_STAGED = sql.SQL("ANALYZE {rows} (member, attempt)")
# OFFSET keeps Postgres from parsing a text of a record that is left out.
STAGED = sql.SQL("""
SELECT {values}, "tidemark at" FROM (
    SELECT *, ctid AS "tidemark at" FROM {rows} AS staged WHERE {chosen} OFFSET 0
) AS staged
""")
FILL_LAST = sql.SQL("""
INSERT INTO {last}
SELECT DISTINCT ON ({key}) {names}, coalesce({deleted}, false), "tidemark at"
FROM ({staged}) AS r ORDER BY {key}, {best_first}
""")
TIED = sql.SQL("""(
    r.kafka_offset = l.kafka_offset AND r.kafka_partition = l.kafka_partition
    AND r.kafka_topic COLLATE "C" = l.kafka_topic COLLATE "C" AND {same_order}
)""")
SPLIT = sql.SQL("""(
    r.kafka_partition <> l.kafka_partition
    OR r.kafka_topic COLLATE "C" <> l.kafka_topic COLLATE "C"
)""")
STORED_IS_NEWER = sql.SQL("""
(t.{order}{bytes}, t.kafka_topic COLLATE "C", t.kafka_partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
DELETED_IS_NEWER = sql.SQL("""
(d.order_by::{order_type}{bytes}, d.topic COLLATE "C", d.partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
UNDECIDED = sql.SQL("""
WITH met AS MATERIALIZED (
    SELECT l.ctid AS last, {is_tied} AS is_tied, {is_split} AS is_split
    FROM ({staged}) AS r JOIN {last} AS l ON {same_key}
    WHERE r."tidemark at" <> l."tidemark at" AND ({is_tied} OR {is_split})
)
SELECT (SELECT count(*) FROM {rows} AS staged WHERE {chosen}),
       count(*) FILTER (WHERE {key_is_null}), count(*) FILTER (WHERE {order_is_null}),
       (SELECT count(DISTINCT last) FROM met WHERE is_tied),
       (SELECT count(DISTINCT last) FROM met WHERE is_split),
       count(*) FILTER (WHERE s.region IS NULL)
FROM {last} AS l LEFT JOIN tidemark.spans s
    ON s.region = {region} AND s.seq = {seq}
    AND s.topic = l.kafka_topic AND s.partition = l.kafka_partition
    AND l.kafka_offset >= s.start_offset AND l.kafka_offset < s.end_offset
""")
MOVED = sql.SQL("""
SELECT count(*) FILTER (
    WHERE t.kafka_topic IS NOT NULL
      AND (t.kafka_topic COLLATE "C", t.kafka_partition)
          IS DISTINCT FROM (l.kafka_topic COLLATE "C", l.kafka_partition)), count(*)
FROM {last} AS l JOIN {target} AS t ON {match}
""")
MOVED_DELETED = sql.SQL("""
SELECT count(*) FROM {last} AS l
JOIN tidemark.deleted_keys d ON d.region = {region} AND d.target = {name} AND d.key = {key_texts}
WHERE (d.topic COLLATE "C", d.partition)
      IS DISTINCT FROM (l.kafka_topic COLLATE "C", l.kafka_partition)
""")
NEWER = sql.SQL("""
DELETE FROM {last} AS l USING {target} AS t
WHERE {match} AND {stored_is_newer}
""")
NEWER_DELETED = sql.SQL("""
DELETE FROM {last} AS l USING tidemark.deleted_keys AS d
WHERE d.region = {region} AND d.target = {name} AND d.key = {key_texts} AND {deleted_is_newer}
""")
# In the order of the ledger's own index, into which that costs least.
UNDO = sql.SQL("""
INSERT INTO tidemark.undo (region, target, seq, key, before_seq, was_deleted, before)
SELECT {region}, {name}, {seq}, {key_texts}, coalesce(t.{batch_seq}, 0), false, ARRAY[{all_texts}]
FROM {last} AS l JOIN {target} AS t ON {match} ORDER BY {key_texts}
""")
UNDO_COLUMNS = sql.SQL("""
INSERT INTO tidemark.undo_columns (region, target, seq, columns)
VALUES ({region}, {name}, {seq}, {all_names})
""")
UNDO_DELETED = sql.SQL("""
INSERT INTO tidemark.undo (region, target, seq, key, before_seq, was_deleted, before)
SELECT {region}, {name}, {seq}, d.key, d.seq, true, ARRAY[d.topic, d.partition::text, d.order_by]
FROM {last} AS l JOIN tidemark.deleted_keys d
    ON d.region = {region} AND d.target = {name} AND d.key = {key_texts}
""")
PLACES = sql.SQL("""
SELECT kafka_topic, kafka_partition, kafka_offset, l.ctid AS at FROM {last} AS l
""")
AT = sql.SQL("l.ctid = ANY ({at})")
DELETE = sql.SQL("""
DELETE FROM {target} AS t USING {last} AS l WHERE {match} AND l."tidemark deleted" AND {taken}
""")
LEFT = sql.SQL("""
SELECT count(*) FROM {target} AS t JOIN {last} AS l ON {match} WHERE l."tidemark deleted"
""")
KEEP_DELETED = sql.SQL("""
INSERT INTO tidemark.deleted_keys (region, target, key, seq, topic, partition, order_by)
SELECT {region}, {name}, {key_texts}, {seq}, l.kafka_topic, l.kafka_partition, {order_text}
FROM {last} AS l WHERE l."tidemark deleted"
ON CONFLICT (region, target, key) DO UPDATE SET seq = EXCLUDED.seq, topic = EXCLUDED.topic,
    partition = EXCLUDED.partition, order_by = EXCLUDED.order_by
""")
CAME_BACK = sql.SQL("""
DELETE FROM tidemark.deleted_keys d USING {last} AS l
WHERE d.region = {region} AND d.target = {name} AND d.key = {key_texts} AND NOT l."tidemark deleted"
""")
WRITE = sql.SQL("""
INSERT INTO {target} ({names}, {batch_seq})
SELECT {names}, {seq} FROM {last} AS l WHERE NOT "tidemark deleted" AND {taken}
ON CONFLICT ({key}) DO UPDATE SET {set}
""")
TRIAL = sql.SQL("""
CREATE UNLOGGED TABLE {trial} AS SELECT {names}, {batch_seq} FROM {target} WITH NO DATA;
ALTER TABLE {trial} {not_null}
""")
NOT_NULL = sql.SQL("ALTER {} SET NOT NULL")
