"""The rows and dead letters of batches, and those that their spans give when read again.

Of an upsert: the keys that a batch changed last, as read again and as they are there now. Both
sides are taken by one statement, for runs may go on meanwhile and change the same keys.
"""

from collections.abc import Iterator, Mapping, Sequence

from psycopg2 import sql

from tidemark.model.batch import ONLY, SET_ASIDE, Attempt, SpanRead
from tidemark.model.upsert import Upsert
from tidemark.postgres.session import Cursor, query
from tidemark.staging import upsert_sql
from tidemark.staging.catalog import TableColumn, find_columns
from tidemark.staging.column import BATCH_SEQ, Column
from tidemark.staging.fit import parsed
from tidemark.staging.keyed import stored
from tidemark.staging.move import move_rows
from tidemark.staging.refusal import naming_refusals
from tidemark.staging.refused import HASH, missing_coordinates, rows_of_records
from tidemark.staging.target import Target
from tidemark.staging.upsert_sql import Names, commas, names_of
from tidemark.verify._multiset import Multisets
from tidemark.verify._scratch import RereadBatches
from tidemark.verify.errors import TransformIsAnother

COORDINATES = ("kafka_topic", "kafka_partition", "kafka_offset")
_TEXTS = ("text", "character varying", "citext", "interval", "point", "lseg", "path", "polygon",
          "circle")  # fmt: skip
_DEAD_LETTER = ("topic", "partition", "offset")

_LIKE_TARGET = sql.SQL(
    "CREATE UNLOGGED TABLE {expected} AS SELECT {names}, {batch_seq} FROM {target} WITH NO DATA"
)
_ROWS = sql.SQL("SELECT {values} FROM {table}")
_OF_BATCHES = sql.SQL("{rows} WHERE {batch_seq} BETWEEN {first} AND {last}")
_STAGED_DEAD_LETTERS = sql.SQL("""
SELECT s.* FROM {dead_letters} s JOIN unnest(
    {members}::bigint[], {attempts}::bigint[], {topics}::text[], {partitions}::int[]
) AS read (member, attempt, topic, partition) USING (member, attempt, topic, partition)
""")
# where one side keeps only the beginning of a record, both are compared as far as that, and the
# hash tells the rest
_ALIKE = sql.SQL("""
SELECT topic, partition, "offset", one.timestamp_ms,
       {key} AS key, {value} AS value,
       CASE WHEN coalesce(one.whole_bytes, other.whole_bytes) IS NULL THEN one.headers
       END AS headers,
       one.hash, one.reason, one.detail
FROM ({one}) AS one LEFT JOIN ({other}) AS other USING (topic, partition, "offset")
""")
_AS_FAR = sql.SQL("""
CASE WHEN other.whole_bytes IS NULL THEN one.{0}
     ELSE substring(one.{0} FROM 1 FOR octet_length(other.{0})) END
""")
# what `set_aside_of` finds is not decoded again here: the reader sets it aside in the same words
_LEDGER_DEAD_LETTERS = sql.SQL("""
SELECT topic, partition, "offset", timestamp_ms, key, value, headers, hash, whole_bytes,
       CASE WHEN is_aside THEN {aside} ELSE reason END AS reason,
       CASE WHEN is_aside THEN '' ELSE detail END AS detail
FROM tidemark.dead_letters,
     LATERAL (SELECT replayed_seq IS NOT NULL OR reason = 'UNKNOWN_SCHEMA') AS l (is_aside)
WHERE region = {region} AND seq BETWEEN {first} AND {last} AND refused_rows IS NULL
""")
# no task attempt has the number -1, so these rows are never moved
_SET_ASIDE = sql.SQL("""
UPDATE {rows} AS staged SET attempt = -1 FROM tidemark.dead_letters d
WHERE d.region = {region} AND d.seq BETWEEN {first} AND {last} AND d.refused_rows IS NOT NULL
  AND d.topic = kafka_topic AND d.partition = kafka_partition AND d."offset" = kafka_offset
""")
_ASIDE = sql.SQL("WHERE attempt = -1")
# those that are cut are told by their hash
_ASIDE_ALIKE = sql.SQL("""
SELECT topic, partition, "offset",
       CASE WHEN d.whole_bytes IS NULL THEN k.refused_rows END AS refused_rows, {hash} AS hash
FROM ({rows}) AS k LEFT JOIN ({refused}) AS d USING (topic, partition, "offset")
""")
_REFUSED = sql.SQL("""
SELECT topic, partition, "offset", refused_rows, hash, whole_bytes FROM tidemark.dead_letters
WHERE region = {region} AND seq BETWEEN {first} AND {last} AND refused_rows IS NOT NULL
""")
_REFUSED_ALIKE = sql.SQL("""
SELECT topic, partition, "offset",
       CASE WHEN whole_bytes IS NULL THEN refused_rows END AS refused_rows, hash
FROM ({refused}) AS d
""")


def rows_of(
    cursor: Cursor,
    again: RereadBatches,
    target: Target,
    columns: Sequence[Column],
    winners: Sequence[Attempt],
) -> Multisets:
    """The batches' rows as read again, in the target's types, and the target's rows.

    Creates the table of the expected rows in the caller's transaction and fills it by the same move
    as a publish, so that values are rounded or widened in the same way.

    Raises:
        SchemaMismatch: the target lacks a column that the transform returns.
    """
    table = {own.name: own for own in find_columns(cursor, target.schema, target.table)}
    refuse_other_transform(target, columns, table)
    expected = again.expected(target)
    names = {
        "names": sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        "batch_seq": sql.Identifier(BATCH_SEQ),
        "target": target.identifier,
        "expected": expected.identifier,
    }
    cursor.execute(_LIKE_TARGET.format(**names))
    attempts = [(winner.member, winner.attempt) for winner in winners]
    with naming_refusals([target]):
        staging = again.batch.staging.of_target(target.name)
        typed = parsed(columns, list(table.values()))
        move_rows(cursor, staging, expected, typed, again.batch.seq, attempts)
    cursor.execute(sql.SQL("ANALYZE {}").format(expected.identifier))
    values = sql.SQL(", ").join(comparable(table[column.name]) for column in columns)
    should_be, is_there = (
        _ROWS.format(values=values, table=one.identifier) for one in (expected, target)
    )
    of_batches = {"batch_seq": names["batch_seq"], **again.literals}
    is_there = _OF_BATCHES.format(rows=is_there, **of_batches)
    stored = {column.name for column in columns}
    coordinates = COORDINATES if stored.issuperset(COORDINATES) else None
    return Multisets(what("row", target), should_be, is_there, coordinates)


def what(kind: str, target: Target) -> str:
    """What differs, with the table where the region has several."""
    return f"{kind} of {target}" if target.name != ONLY else kind


def refused_of(
    cursor: Cursor, region: str, again: RereadBatches, columns: Mapping[str, Sequence[Column]]
) -> Multisets | None:
    """The records of which a target refused a row: as read again, and the ledger's.

    Sets their rows aside, as the publish did: call it before `rows_of`. None if the rows of a
    target lack their record's coordinates: then the publish set none aside.
    """
    if any(map(missing_coordinates, columns.values())):
        return None
    for name in columns:
        staging = again.batch.staging.of_target(name)
        rows = sql.Identifier(staging.schema, staging.rows)
        cursor.execute(_SET_ASIDE.format(rows=rows, **_of_batches(region, again)))
    aside = rows_of_records(again.batch, tuple(columns), _ASIDE)
    refused = _REFUSED.format(**_of_batches(region, again))
    digest = HASH.format(sql.SQL("k.refused_rows"))
    expected = _ASIDE_ALIKE.format(rows=aside, refused=refused, hash=digest)
    return Multisets(
        "refused record", expected, _REFUSED_ALIKE.format(refused=refused), _DEAD_LETTER
    )


def dead_letters_of(region: str, again: RereadBatches, reads: Sequence[SpanRead]) -> Multisets:
    """The batches' dead letters as read again, and the ledger's."""
    staged = sql.Identifier(again.batch.staging.schema, again.batch.staging.dead_letters)
    read_by: dict[str, sql.Composable] = {
        "members": sql.Literal([read.member for read in reads]),
        "attempts": sql.Literal([read.attempt for read in reads]),
        "topics": sql.Literal([read.span.topic for read in reads]),
        "partitions": sql.Literal([read.span.partition for read in reads]),
    }
    expected = _STAGED_DEAD_LETTERS.format(dead_letters=staged, **read_by)
    found = _LEDGER_DEAD_LETTERS.format(aside=sql.Literal(SET_ASIDE), **_of_batches(region, again))
    return Multisets("dead letter", _alike(expected, found), _alike(found, expected), _DEAD_LETTER)


def _alike(one: sql.Composable, other: sql.Composable) -> sql.Composable:
    """What is compared of dead letters with the other side's."""
    key, value = (_AS_FAR.format(sql.Identifier(name)) for name in ("key", "value"))
    return _ALIKE.format(one=one, other=other, key=key, value=value)


def purged_of(cursor: Cursor, region: str, again: RereadBatches) -> int:
    """How many dead letters of the batches a person has purged."""
    values = {"region": region, "first": again.first, "last": again.last}
    cursor.execute(query("purged_of"), values)
    return int((cursor.fetchone() or (0,))[0])


def _of_batches(region: str, again: RereadBatches) -> dict[str, sql.Composable]:
    return {"region": sql.Literal(region), **again.literals}


def comparable(own: TableColumn) -> sql.Composable:
    """The column's value, so that `=` compares every byte."""
    name = sql.Identifier(own.name)
    kind = own.type_name.rpartition(".")[2].removesuffix("[]")
    array = "[]" if own.type_name.endswith("[]") else ""
    if kind == "json":
        # json itself has no equality
        return sql.SQL("{0}::jsonb{1} AS {0}").format(name, sql.SQL(array))
    if kind in _TEXTS:
        # equal to others (citext, a nondeterministic collation, 24 hours and a day), or to nothing
        return sql.SQL('{0}::text{1} COLLATE "C" AS {0}').format(name, sql.SQL(array))
    return name


def refuse_other_transform(
    target: Target, columns: Sequence[Column], table: dict[str, TableColumn]
) -> None:
    """Raise SchemaMismatch if the target lacks a column that the transform returns."""
    if missing := tuple(column.name for column in columns if column.name not in table):
        raise TransformIsAnother(target=str(target), columns=missing)


# Of a key that a later batch changed, that batch's own proof tells.
_SIDES = sql.SQL("""
CREATE UNLOGGED TABLE {sides} AS
WITH mine AS (
    SELECT l.*, {key_texts} AS "tidemark key" FROM {last} AS l
    WHERE NOT EXISTS (SELECT FROM tidemark.undo u
                      WHERE u.region = {region} AND u.target = {name} AND u.seq > {seq}
                        AND u.key = {key_texts})
      AND NOT ({is_older})
)
SELECT 'row' AS "tidemark what", true AS "tidemark expected", {values},
       NULL::text[] AS "tidemark key"
FROM mine WHERE NOT "tidemark deleted"
UNION ALL
SELECT 'row', false, {values}, NULL FROM {target} WHERE {batch_seq} = {seq}
UNION ALL
SELECT 'key', true, {nulls}, "tidemark key" FROM mine WHERE "tidemark deleted"
UNION ALL
SELECT 'key', false, {nulls}, d.key FROM tidemark.deleted_keys d
WHERE d.region = {region} AND d.target = {name} AND d.seq = {seq}
""")
_IS_OLDER = sql.SQL("""
EXISTS (SELECT FROM {target} AS t
        WHERE {match} AND t.{batch_seq} < {seq} AND {stored_is_newer})
OR EXISTS (SELECT FROM tidemark.deleted_keys AS d
           WHERE d.region = {region} AND d.target = {name} AND d.key = {key_texts} AND d.seq < {seq}
             AND {deleted_is_newer})
""")
_SIDE = sql.SQL(
    'SELECT {names} FROM {sides} WHERE "tidemark what" = {what} AND "tidemark expected" = {side}'
)


def upserts_of(
    cursor: Cursor,
    region: str,
    again: RereadBatches,
    target: Target,
    columns: Sequence[Column],
    upsert: Upsert,
    winners: Sequence[Attempt],
) -> Iterator[Multisets]:
    """The rows and the deleted keys that the batch left, unless a later batch changed them.

    Raises:
        SchemaMismatch: the target lacks a column that the transform returns.
    """
    table = {own.name: own for own in find_columns(cursor, target.schema, target.table)}
    kept = stored(columns, upsert)
    refuse_other_transform(target, kept, table)
    attempts = [(winner.member, winner.attempt) for winner in winners]
    names = names_of(again.batch, target, columns, upsert, list(table.values()), attempts)
    for statement in (upsert_sql.MAKE_LAST, upsert_sql.FILL_LAST, sql.SQL("ANALYZE {last}")):
        cursor.execute(statement.format(**names))
    sides: Names = {
        **names,
        "sides": again.expected(target).identifier,
        "region": sql.Literal(region),
        "seq": sql.Literal(again.last),
        "values": commas(comparable(table[column.name]) for column in kept),
        "nulls": commas([sql.SQL("NULL")] * len(kept)),
    }
    older = _IS_OLDER.format(**sides) if upsert.order_by else sql.SQL("false")
    cursor.execute(_SIDES.format(**sides, is_older=older))
    cursor.execute(sql.SQL("DROP TABLE {last}").format(**names))
    row = commas(sql.Identifier(column.name) for column in kept)
    yield _multisets(what("row", target), "row", row, sides, COORDINATES)
    yield _multisets(
        what("deleted key", target), "key", sql.Identifier("tidemark key"), sides, None
    )


def _multisets(
    kind: str,
    stored_as: str,
    names: sql.Composable,
    sides: Names,
    coordinates: tuple[str, str, str] | None,
) -> Multisets:
    expected, found = (
        _SIDE.format(
            names=names, sides=sides["sides"], what=sql.Literal(stored_as), side=sql.Literal(side)
        )
        for side in (True, False)
    )
    return Multisets(kind, expected, found, coordinates)
