"""The statements of an upsert, and the names in them and in those that take it back."""

from collections.abc import Iterable, Sequence

from psycopg2 import sql

from tidemark.model.batch import ONLY, Batch
from tidemark.model.upsert import Upsert
from tidemark.staging.catalog import TableColumn
from tidemark.staging.column import BATCH_SEQ, TIMESTAMP, TIMESTAMPTZ, Column
from tidemark.staging.fit import is_number, parsed
from tidemark.staging.keyed import stored
from tidemark.staging.move import of_winners, staged_value
from tidemark.staging.target import Target

# In the target's own types: its collations too.
MAKE_LAST = sql.SQL("""
CREATE UNLOGGED TABLE {last} AS
SELECT {names}, false AS "tidemark deleted", NULL::tid AS "tidemark at",
       false AS "tidemark tied", false AS "tidemark split"
FROM {target} WITH NO DATA
""")
# OFFSET keeps Postgres from parsing a text of a record that is left out.
STAGED = sql.SQL("""
SELECT {values}, "tidemark at" FROM (
    SELECT *, ctid AS "tidemark at" FROM {rows} AS staged WHERE {chosen} OFFSET 0
) AS staged
""")
# A record that is one change of its source deletes in the place of the order of its rows.
STAGED_CHANGES = sql.SQL("""
SELECT {names}, {deleted}, "tidemark at" FROM (
    SELECT {others}, {deleted}, "tidemark at",
           CASE WHEN {deleted} THEN coalesce(
               max({order}{bytes}) FILTER (WHERE {deleted} IS NOT TRUE) OVER of_record, {order})
           ELSE {order} END AS {order}
    FROM ({staged}) AS s
    WINDOW of_record AS (PARTITION BY kafka_topic, kafka_partition, kafka_offset)
) AS s
""")
# One sort tells each key's last row and whether the others contradict it.
FILL_LAST = sql.SQL("""
INSERT INTO {last}
SELECT DISTINCT ON ({key}) {names}, coalesce({deleted}, false), "tidemark at", {is_tied}, {is_split}
FROM ({staged}) AS r
WINDOW of_key AS (
    PARTITION BY {key} ORDER BY {best_first}
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
)
ORDER BY {key}, {best_first}
""")
# Rows of one record with the same order stand side by side.
TIED = sql.SQL("""(
    nth_value(kafka_offset, 2) OVER of_key = kafka_offset
    AND nth_value(kafka_partition, 2) OVER of_key = kafka_partition
    AND nth_value(kafka_topic, 2) OVER of_key COLLATE "C" = kafka_topic COLLATE "C"
    AND nth_value({order}, 2) OVER of_key{bytes} = {order}{bytes}
)""")
# Where nothing else decides, so do those of one partition.
SPLIT = sql.SQL("""(
    last_value(kafka_partition) OVER of_key <> kafka_partition
    OR last_value(kafka_topic) OVER of_key COLLATE "C" <> kafka_topic COLLATE "C"
)""")
# Of one record a deletion comes before a row; two of a kind contradict each other.
TIED_CHANGES = sql.SQL("""(
    {is_tied} AND nth_value({is_deleted}, 2) OVER of_key = {is_deleted}
)""")
TIED_IN_PARTITION = sql.SQL("""(
    nth_value(kafka_offset, 2) OVER of_key = kafka_offset AND NOT {split}
)""").format(split=SPLIT)
# No row of the key that came before is newer. Ties go to the later coordinates.
IS_BEST = sql.SQL("{order}{bytes} >= max({order}{bytes}) OVER so_far")
STORED_IS_NEWER = sql.SQL("""
(t.{order}{bytes}, t.kafka_topic COLLATE "C", t.kafka_partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
DELETED_IS_NEWER = sql.SQL("""
(d.order_by::{order_type}{bytes}, d.topic COLLATE "C", d.partition)
    > (l.{order}{bytes}, l.kafka_topic COLLATE "C", l.kafka_partition)
""")
UNDECIDED = sql.SQL("""
SELECT (SELECT count(*) FROM {rows} AS staged WHERE {chosen}),
       count(*), count(*) FILTER (WHERE NOT "tidemark deleted"),
       count(*) FILTER (WHERE {key_is_null}), count(*) FILTER (WHERE {order_is_null}),
       count(*) FILTER (WHERE "tidemark tied"), count(*) FILTER (WHERE "tidemark split"),
       count(*) FILTER (WHERE s.region IS NULL)
FROM {last} AS l LEFT JOIN tidemark.spans s
    ON s.region = {region} AND s.seq = {seq}
    AND s.topic = l.kafka_topic AND s.partition = l.kafka_partition
    AND l.kafka_offset >= s.start_offset AND l.kafka_offset < s.end_offset
""")
# By one journey to the server: under the region's lock others wait for each.
FIND_LAST = sql.SQL(
    ";".join((MAKE_LAST.string, FILL_LAST.string, "ANALYZE {last} ({key})", UNDECIDED.string))
)
# Rows that are there are held to the end of the publish: what another session writes to them comes
# before this or behind the COMMIT.
HELD = sql.SQL("""
SELECT count(*) FILTER (
    WHERE kafka_topic IS NOT NULL
      AND (kafka_topic COLLATE "C", kafka_partition)
          IS DISTINCT FROM (last_topic COLLATE "C", last_partition)),
       count(*), count(*) FILTER (WHERE NOT "tidemark deleted")
FROM (SELECT t.kafka_topic, t.kafka_partition, "tidemark deleted",
             l.kafka_topic AS last_topic, l.kafka_partition AS last_partition
      FROM {last} AS l JOIN {target} AS t ON {match} FOR NO KEY UPDATE OF t) AS held
""")
# A deleted key that the target holds nevertheless was put there by another hand: the row counts.
IS_GONE = sql.SQL("""
d.region = {region} AND d.target = {name} AND d.key = {key_texts}
AND NOT EXISTS (SELECT FROM {target} AS t WHERE {match})
""")
MOVED_DELETED = sql.SQL("""
SELECT count(*) FROM {last} AS l JOIN tidemark.deleted_keys d ON {is_gone}
WHERE (d.topic COLLATE "C", d.partition)
      IS DISTINCT FROM (l.kafka_topic COLLATE "C", l.kafka_partition)
""")
NEWER = sql.SQL("""
WITH older AS (
    DELETE FROM {last} AS l USING {target} AS t
    WHERE {match} AND {stored_is_newer} RETURNING "tidemark deleted"
) SELECT count(*), count(*) FILTER (WHERE NOT "tidemark deleted") FROM older
""")
NEWER_DELETED = sql.SQL("""
WITH older AS (
    DELETE FROM {last} AS l USING tidemark.deleted_keys AS d
    WHERE {is_gone} AND {deleted_is_newer} RETURNING "tidemark deleted"
) SELECT count(*), count(*) FILTER (WHERE NOT "tidemark deleted") FROM older
""")
# In the order of the ledger's own index, into which that costs least; as texts, which sort faster.
# A row that says to be of a later batch was put there by another hand: it is of none.
UNDO = sql.SQL("""
INSERT INTO tidemark.undo (region, target, seq, key, before_seq, was_deleted, before)
SELECT {region}, {name}, {seq}, {key_texts},
       CASE WHEN t.{batch_seq} < {seq} THEN t.{batch_seq} ELSE 0 END, false, ARRAY[{all_texts}]
FROM {last} AS l JOIN {target} AS t ON {match} ORDER BY {key_text}
""")
UNDO_OTHERS = sql.SQL("""
INSERT INTO tidemark.undo_columns (region, target, seq, columns)
VALUES ({region}, {name}, {seq}, {all_names});
INSERT INTO tidemark.undo (region, target, seq, key, before_seq, was_deleted, before)
SELECT {region}, {name}, {seq}, d.key, d.seq, true, ARRAY[d.topic, d.partition::text, d.order_by]
FROM {last} AS l JOIN tidemark.deleted_keys d ON {is_gone}
""")
PLACES = sql.SQL("""
SELECT kafka_topic, kafka_partition, kafka_offset, l.ctid AS at FROM {last} AS l
""")
AT = sql.SQL("l.ctid = ANY ({at})")
DELETE = sql.SQL("""
DELETE FROM {target} AS t USING {last} AS l
WHERE {match} AND l."tidemark deleted" AND {taken} AND {is_ours}
""")
INSERT = sql.SQL("""
INSERT INTO {target} ({names}, {batch_seq})
SELECT {names}, {seq} FROM {last} AS l WHERE NOT "tidemark deleted" AND {taken}
""")
# One statement, at the end of which references are checked.
WRITE = sql.SQL("""
WITH changed AS ({insert} AND {is_there}
    ON CONFLICT ({key}) DO UPDATE SET {set} RETURNING 1
), added AS ({insert} AND {is_new}
    ON CONFLICT ({key}) DO NOTHING RETURNING 1
) SELECT (SELECT count(*) FROM changed), (SELECT count(*) FROM added)
""")
IS_THERE = sql.SQL("EXISTS (SELECT FROM {target} AS t WHERE {match} AND {is_ours})")
IS_NEW = sql.SQL("NOT EXISTS (SELECT FROM {target} AS t WHERE {match})")
# Where few keys are new: keys alone are compared, and the rows need no join.
NEW_ROWS = sql.SQL("""
SELECT coalesce(array_agg(l.ctid), '{{}}')::text FROM {last} AS l
WHERE NOT l."tidemark deleted" AND {is_new}
""")
IS_OTHER = sql.SQL("l.ctid <> ALL ({at})")
# Where rows of all its keys are held, nobody else can insert one.
WRITE_HELD = sql.SQL("{insert} ON CONFLICT ({key}) DO UPDATE SET {set}")
TO_WRITE = sql.SQL("""
SELECT count(*) FROM {last} AS l WHERE NOT l."tidemark deleted" AND {taken}
""")
# What is kept of a row for a rewind names it; and what the batch has written is the batch's.
IS_OURS = sql.SQL("""(t.{batch_seq} IS NOT DISTINCT FROM {seq} OR EXISTS (
    SELECT FROM tidemark.undo u WHERE u.region = {region} AND u.target = {name} AND u.seq = {seq}
    AND u.key = {target_key} AND NOT u.was_deleted))
""")
FOREIGN = sql.SQL("""
SELECT count(*) FROM {last} AS l JOIN {target} AS t ON {match} WHERE NOT {is_of_batch}
""")
WRITTEN = sql.SQL("""
SELECT count(*) FROM {last} AS l JOIN {target} AS t ON {match}
WHERE NOT l."tidemark deleted" AND t.{batch_seq} = {seq}
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
WHERE d.region = {region} AND d.target = {name} AND d.key = {key_texts}
  AND NOT l."tidemark deleted";
DROP TABLE {last}
""")
TRIAL = sql.SQL("""
CREATE UNLOGGED TABLE {trial} AS SELECT {names}, {batch_seq} FROM {target} WITH NO DATA;
ALTER TABLE {trial} {not_null}
""")
NOT_NULL = sql.SQL("ALTER {} SET NOT NULL")


Names = dict[str, sql.Composable]


def names_of(
    batch: Batch,
    target: Target,
    columns: Sequence[Column],
    upsert: Upsert,
    table: Sequence[TableColumn],
    winners: Sequence[tuple[int, int]],
) -> Names:
    """What the statements name; literals, for with parameters a % in a name were a placeholder."""
    names = [column.name for column in stored(columns, upsert)]
    types = {own.name: own.type_name for own in table}
    found: Names = {
        "last": _own(batch, target, "last"),
        "steps": _own(batch, target, "steps"),
        "rows": sql.Identifier(batch.staging.schema, batch.staging.of_target(target.name).rows),
        "region": sql.Literal(batch.region),
        "seq": sql.Literal(batch.seq),
        "names": commas(map(sql.Identifier, names)),
        "values": commas(
            sql.SQL("{} AS {}").format(staged_value(column), sql.Identifier(column.name))
            for column in parsed(columns, table)
        ),
        "deleted": sql.Identifier(upsert.deleted) if upsert.deleted else sql.SQL("false"),
        "set": excluded((*names, BATCH_SEQ), upsert.key),
        **of_target(target, upsert.key, table),
        **_of_order(upsert, types),
    }
    if upsert.of_changes and upsert.deleted:
        found |= _of_changes(found, upsert, names)
    found["is_gone"] = IS_GONE.format(**found)
    found["is_of_batch"] = IS_OURS.format(**found)
    return of_chosen(found, of_winners(winners))


def _own(batch: Batch, target: Target, of: str) -> sql.Identifier:
    """A table of the publish: targets that are published together have one each."""
    name = f"{batch.region}_{batch.seq}_{of}"
    whole = name if target.name == ONLY else f"{name}.{target.name}"
    return sql.Identifier(batch.staging.schema, whole)


def of_chosen(names: Names, chosen: sql.Composable) -> Names:
    """The same for other staged rows."""
    named = {**names, "chosen": chosen}
    named["staged"] = STAGED.format(**named)
    if "others" in names:
        named["staged"] = STAGED_CHANGES.format(**named)
    return named


def of_target(target: Target, key: Sequence[str], table: Sequence[TableColumn]) -> Names:
    """The names of the target, of its key and of all columns that hold something of their own."""
    kept = [own.name for own in table if not own.generated]
    return {
        "target": target.identifier,
        "name": sql.Literal(target.name),
        "batch_seq": sql.Identifier(BATCH_SEQ),
        "key": commas(map(sql.Identifier, key)),
        "match": sql.SQL(" AND ").join(
            sql.SQL("l.{0} = t.{0}").format(sql.Identifier(name)) for name in key
        ),
        "key_texts": key_texts("l", key),
        "target_key": key_texts("t", key),
        "key_text": key_text("l", key),
        "key_is_null": sql.SQL("NOT ({} IS NOT NULL)").format(_row("l", key)),
        "all_names": sql.Literal(kept),
        "all_texts": commas(sql.SQL("t.{}::text").format(sql.Identifier(name)) for name in kept),
    }


MOST_KEY_BYTES = 2000
"""An entry of an index has 2,704: the ledger's hold the region and the target beside a key."""

_KEPT = sql.SQL("""
CASE WHEN {bytes} <= {most} THEN ARRAY[{texts}]
     ELSE ARRAY[NULL, encode(sha256(convert_to(ARRAY[{texts}]::text, 'UTF8')), 'hex')] END
""")


def key_texts(of: str, key: Sequence[str]) -> sql.Composable:
    """The key of a row as the ledger keeps it: its texts, or the digest of those that are long.

    A digest stands behind a null, which no key has.
    """
    sizes = [sql.SQL("octet_length({}::text)").format(sql.Identifier(of, name)) for name in key]
    return _KEPT.format(
        bytes=sql.SQL(" + ").join(sizes), most=sql.Literal(MOST_KEY_BYTES), texts=key_text(of, key)
    )


def key_text(of: str, key: Sequence[str]) -> sql.Composable:
    """The same in a list: it sorts alike."""
    return commas(sql.SQL('({}::text) COLLATE "C"').format(sql.Identifier(of, n)) for n in key)


def excluded(names: Iterable[str], key: Sequence[str]) -> sql.Composable:
    """The assignments of ON CONFLICT: all columns but the key."""
    others = (sql.Identifier(name) for name in names if name not in key)
    return commas(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in others)


def commas(parts: Iterable[sql.Composable]) -> sql.Composed:
    """The parts in a list."""
    return sql.SQL(", ").join(parts)


def _bytes(kind: str) -> sql.SQL:
    return sql.SQL(' COLLATE "C"' if kind.startswith(("text", "character")) else "")


def _widest(kind: str) -> str:
    """A type that cuts nothing of what the ledger keeps of an order, whatever the column was."""
    if is_number(kind):
        return "numeric"
    if kind.startswith(("text", "character")):
        return "text"
    return TIMESTAMPTZ if kind.endswith("with time zone") else TIMESTAMP


def _row(of: str, names: Sequence[str]) -> sql.Composable:
    return sql.SQL("ROW({})").format(commas(sql.Identifier(of, name) for name in names))


def _of_changes(found: Names, upsert: Upsert, names: Sequence[str]) -> Names:
    """What is other where a record is one change, by what is found for any record."""
    is_deleted = sql.SQL("coalesce({deleted}, false)").format(**found)
    changes: Names = {
        "best_first": sql.SQL("{}, {}").format(found["best_first"], is_deleted),
        "is_tied": TIED_CHANGES.format(is_tied=found["is_tied"], is_deleted=is_deleted),
    }
    if upsert.order_by:
        others = (sql.Identifier(name) for name in names if name != upsert.order_by)
        changes["others"] = commas(others)
    return changes


def _of_order(upsert: Upsert, types: dict[str, str]) -> Names:
    last = sql.SQL('kafka_topic COLLATE "C" DESC, kafka_partition DESC, kafka_offset DESC')
    if upsert.order_by is None:
        return {
            "best_first": last,
            "is_best": sql.SQL("true"),
            "is_tied": TIED_IN_PARTITION,
            "is_split": SPLIT,
            "order_is_null": sql.SQL("false"),
            "order_text": sql.SQL("NULL"),
        }
    order, kind = sql.Identifier(upsert.order_by), types[upsert.order_by]
    by_bytes = _bytes(kind)
    compared = {"order": order, "bytes": by_bytes, "order_type": sql.SQL(_widest(kind))}
    return {
        **compared,
        "stored_is_newer": STORED_IS_NEWER.format(**compared),
        "deleted_is_newer": DELETED_IS_NEWER.format(**compared),
        "best_first": sql.SQL("{}{} DESC NULLS FIRST, {}").format(order, by_bytes, last),
        "is_best": IS_BEST.format(**compared),
        "is_tied": TIED.format(**compared),
        "is_split": sql.SQL("false"),
        "order_is_null": sql.SQL("l.{} IS NULL").format(order),
        "order_text": sql.SQL("l.{}::text").format(order),
    }
