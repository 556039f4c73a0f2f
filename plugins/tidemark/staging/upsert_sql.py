"""The statements of an upsert, and the names in them."""

from collections.abc import Iterable, Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Batch
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import configure
from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import BATCH_SEQ, Column
from tidemark.staging.move import of_winners, staged_value
from tidemark.staging.target import Target

_TEXTS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}

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
_SPLIT = sql.SQL("""
    min(kafka_partition) OVER whole <> max(kafka_partition) OVER whole
    OR min(kafka_topic) OVER whole <> max(kafka_topic) OVER whole
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
JOIN tidemark.deleted_keys d ON d.region = {region} AND d.key = {key_texts}
WHERE (d.topic COLLATE "C", d.partition)
      IS DISTINCT FROM (l.kafka_topic COLLATE "C", l.kafka_partition)
""")
NEWER = sql.SQL("""
DELETE FROM {last} AS l USING {target} AS t
WHERE {match} AND (t.{order}{bytes}, t.kafka_topic COLLATE "C", t.kafka_partition)
                > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
NEWER_DELETED = sql.SQL("""
DELETE FROM {last} AS l USING tidemark.deleted_keys AS d
WHERE d.region = {region} AND d.key = {key_texts}
  AND (d.order_by::{order_type}{bytes}, d.topic COLLATE "C", d.partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
UNDO = sql.SQL("""
INSERT INTO tidemark.undo (region, seq, key, before_seq, was_deleted, before)
SELECT {region}, {seq}, {key_texts}, coalesce(t.{batch_seq}, 0), false,
       json_object({all_names}, ARRAY[{all_texts}])
FROM {last} AS l JOIN {target} AS t ON {match}
""")
UNDO_DELETED = sql.SQL("""
INSERT INTO tidemark.undo (region, seq, key, before_seq, was_deleted, before)
SELECT {region}, {seq}, d.key, d.seq, true,
       json_build_object('topic', d.topic, 'partition', d.partition, 'order_by', d.order_by)
FROM {last} AS l JOIN tidemark.deleted_keys d ON d.region = {region} AND d.key = {key_texts}
""")
DELETE = sql.SQL("""
DELETE FROM {target} AS t USING {last} AS l WHERE {match} AND l."tidemark deleted"
""")
LEFT = sql.SQL("""
SELECT count(*) FROM {target} AS t JOIN {last} AS l ON {match} WHERE l."tidemark deleted"
""")
KEEP_DELETED = sql.SQL("""
INSERT INTO tidemark.deleted_keys (region, key, seq, topic, partition, order_by)
SELECT {region}, {key_texts}, {seq}, l.kafka_topic, l.kafka_partition, {order_text}
FROM {last} AS l WHERE l."tidemark deleted"
ON CONFLICT (region, key) DO UPDATE SET seq = EXCLUDED.seq, topic = EXCLUDED.topic,
    partition = EXCLUDED.partition, order_by = EXCLUDED.order_by
""")
CAME_BACK = sql.SQL("""
DELETE FROM tidemark.deleted_keys d USING {last} AS l
WHERE d.region = {region} AND d.key = {key_texts} AND NOT l."tidemark deleted"
""")
WRITE = sql.SQL("""
INSERT INTO {target} ({names}, {batch_seq})
SELECT {names}, {seq} FROM {last} WHERE NOT "tidemark deleted"
ON CONFLICT ({key}) DO UPDATE SET {set}
""")

Names = dict[str, sql.Composable]


def exact_texts(cursor: Cursor) -> None:
    """To the end of the transaction values become texts, and texts values, without a loss."""
    configure(cursor, _TEXTS, is_local=True)


def names_of(
    batch: Batch,
    target: Target,
    columns: Sequence[Column],
    upsert: Upsert,
    table: Sequence[TableColumn],
    winners: Sequence[tuple[int, int]],
) -> Names:
    """What the statements name; literals, for with parameters a % in a name were a placeholder."""
    names = [column.name for column in columns if column.name != upsert.deleted]
    return {
        "last": sql.Identifier(batch.staging.schema, f"{batch.region}_{batch.seq}_last"),
        "rows": sql.Identifier(batch.staging.schema, batch.staging.rows),
        "region": sql.Literal(batch.region),
        "seq": sql.Literal(batch.seq),
        "chosen": of_winners(winners),
        "names": commas(map(sql.Identifier, names)),
        "values": commas(
            sql.SQL("{} AS {}").format(staged_value(column), sql.Identifier(column.name))
            for column in columns
        ),
        "deleted": sql.Identifier(upsert.deleted) if upsert.deleted else sql.SQL("false"),
        "set": commas(
            sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name))
            for name in (*names, BATCH_SEQ)
            if name not in upsert.key
        ),
        **of_target(target, upsert.key, table),
        **_of_order(upsert, {own.name: own.type_name for own in table}),
    }


def of_target(target: Target, key: Sequence[str], table: Sequence[TableColumn]) -> Names:
    """The names of the target, of its key and of all columns that hold something of their own."""
    kept = [own.name for own in table if not own.generated]
    return {
        "target": target.identifier,
        "batch_seq": sql.Identifier(BATCH_SEQ),
        "key": commas(map(sql.Identifier, key)),
        "match": sql.SQL(" AND ").join(
            sql.SQL("l.{0} = t.{0}").format(sql.Identifier(name)) for name in key
        ),
        "key_texts": key_texts("l", key),
        "key_is_null": sql.SQL("NOT ({} IS NOT NULL)").format(_row("l", key)),
        "all_names": sql.Literal(kept),
        "all_texts": commas(sql.SQL("t.{}::text").format(sql.Identifier(name)) for name in kept),
    }


def key_texts(of: str, key: Sequence[str]) -> sql.Composable:
    """The key of a row as the ledger keeps it."""
    texts = (sql.SQL('({}::text) COLLATE "C"').format(sql.Identifier(of, name)) for name in key)
    return sql.SQL("ARRAY[{}]").format(commas(texts))


def commas(parts: Iterable[sql.Composable]) -> sql.Composed:
    """The parts in a list."""
    return sql.SQL(", ").join(parts)


def _row(of: str, names: Sequence[str]) -> sql.Composable:
    return sql.SQL("ROW({})").format(commas(sql.Identifier(of, name) for name in names))


def _of_order(upsert: Upsert, types: dict[str, str]) -> Names:
    last = sql.SQL('kafka_topic COLLATE "C" DESC, kafka_partition DESC, kafka_offset DESC')
    if upsert.order_by is None:
        return {
            "best_first": last,
            "same_order": sql.SQL(""),
            "is_split": _SPLIT,
            "order_is_null": sql.SQL("false"),
            "order_text": sql.SQL("NULL"),
        }
    order, kind = sql.Identifier(upsert.order_by), types[upsert.order_by]
    is_text = kind.startswith(("text", "character"))
    by_bytes = sql.SQL(' COLLATE "C"' if is_text else "")
    return {
        "order": order,
        "bytes": by_bytes,
        "order_type": sql.SQL(kind),
        "best_first": sql.SQL("{}{} DESC NULLS FIRST, {}").format(order, by_bytes, last),
        "same_order": sql.SQL("AND lead({0}) OVER best = {0}").format(order),
        "is_split": sql.SQL("false"),
        "order_is_null": sql.SQL("l.{} IS NULL").format(order),
        "order_text": sql.SQL("l.{}::text").format(order),
    }
