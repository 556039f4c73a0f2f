"""Rows that a region which is gone has left in a target: they bear its batches' seqs."""

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.staging.catalog import find_columns, find_relation
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.errors import TargetHasLeftovers
from tidemark.staging.target import Target

_MAY_LOOK = sql.SQL("SELECT has_table_privilege({name}, 'SELECT')")
_LEFT = sql.SQL("SELECT EXISTS (SELECT FROM {target} WHERE {batch_seq} > 0)")


def refuse_leftovers(cursor: Cursor, target: Target) -> None:
    """Refuse a target with rows of batches, for a region that has published nothing.

    Its own batches would get the same seqs: counts, proofs and rewinds would take both for one.

    Raises:
        Refused: with the statement that makes them rows of no batch, which no rewind removes.
    """
    if find_relation(cursor, target.schema, target.table) is None:
        return
    columns = {own.name for own in find_columns(cursor, target.schema, target.table)}
    cursor.execute(_MAY_LOOK.format(name=sql.Literal(str(target))))
    if BATCH_SEQ not in columns or cursor.fetchone() != (True,):
        return
    cursor.execute(_LEFT.format(target=target.identifier, batch_seq=sql.Identifier(BATCH_SEQ)))
    if cursor.fetchone() == (True,):
        raise TargetHasLeftovers(target=str(target))
