"""The statements of an upsert."""

from psycopg2 import sql

# In the target's own types: its collations too.
MAKE_LAST = sql.SQL("""
CREATE UNLOGGED TABLE {last} AS
SELECT {names}, false AS "tidemark deleted", 0::bigint AS "tidemark rows",
       false AS "tidemark split", false AS "tidemark tied"
FROM {target} WITH NO DATA
""")
FILL_LAST = sql.SQL("""
INSERT INTO {last}
SELECT {names}, coalesce({deleted}, false), "tidemark rows", "tidemark split",
       coalesce("tidemark tied", false)
FROM (
    SELECT *, row_number() OVER best AS "tidemark place", count(*) OVER whole AS "tidemark rows",
           lead(kafka_offset) OVER best = kafka_offset
               AND lead(kafka_partition) OVER best = kafka_partition
               AND lead(kafka_topic) OVER best = kafka_topic {same_order} AS "tidemark tied",
           {is_split} AS "tidemark split"
    FROM (SELECT {values} FROM {rows} AS staged WHERE {chosen}) AS staged_row
    WINDOW best AS (PARTITION BY {key} ORDER BY {best_first}),
           whole AS (best ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) AS ranked WHERE "tidemark place" = 1
""")
SPLIT = sql.SQL("""
    min(kafka_partition) OVER whole <> max(kafka_partition) OVER whole
    OR min(kafka_topic) OVER whole <> max(kafka_topic) OVER whole
""")
STORED_IS_NEWER = sql.SQL("""
(t.{order}{bytes}, t.kafka_topic COLLATE "C", t.kafka_partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
DELETED_IS_NEWER = sql.SQL("""
(d.order_by::{order_type}{bytes}, d.topic COLLATE "C", d.partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
UNDECIDED = sql.SQL("""
SELECT coalesce(sum("tidemark rows"), 0)::bigint,
       count(*) FILTER (WHERE {key_is_null}), count(*) FILTER (WHERE {order_is_null}),
       count(*) FILTER (WHERE "tidemark tied"), count(*) FILTER (WHERE "tidemark split"),
       count(*) FILTER (WHERE s.region IS NULL)
FROM {last} AS l LEFT JOIN tidemark.spans s
    ON s.region = {region} AND s.seq = {seq}
    AND s.topic = l.kafka_topic AND s.partition = l.kafka_partition
    AND l.kafka_offset >= s.start_offset AND l.kafka_offset < s.end_offset
""")
MOVED = sql.SQL("""
SELECT count(*) FROM {last} AS l JOIN {target} AS t ON {match}
WHERE t.kafka_topic IS NOT NULL
  AND (t.kafka_topic COLLATE "C", t.kafka_partition)
      IS DISTINCT FROM (l.kafka_topic COLLATE "C", l.kafka_partition)
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
DELETE = sql.SQL("""
DELETE FROM {target} AS t USING {last} AS l WHERE {match} AND l."tidemark deleted"
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
SELECT {names}, {seq} FROM {last} WHERE NOT "tidemark deleted"
ON CONFLICT ({key}) DO UPDATE SET {set}
""")
