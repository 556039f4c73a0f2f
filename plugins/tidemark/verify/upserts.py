"""The keys that a batch of an upsert changed last: as read again, and as they are there now.

Both sides are taken by one statement, for runs may go on meanwhile and change the same keys.
"""

from collections.abc import Iterator, Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import Attempt
from tidemark.model.upsert import Upsert
from tidemark.staging import upsert_sql
from tidemark.staging.catalog import find_columns
from tidemark.staging.column import Column
from tidemark.staging.keyed import stored
from tidemark.staging.target import Target
from tidemark.staging.upsert_sql import Names, commas, exact_texts, names_of
from tidemark.verify.multiset import Multisets
from tidemark.verify.rows import COORDINATES, comparable, refuse_other_transform, what
from tidemark.verify.scratch import Again

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
    again: Again,
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
    exact_texts(cursor)
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
            names=names,
            sides=sides["sides"],
            what=sql.Literal(stored_as),
            side=sql.Literal(side),
        )
        for side in (True, False)
    )
    return Multisets(kind, expected, found, coordinates)
