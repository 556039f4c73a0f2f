"""The rows of a target beside those that the ledger moved there."""

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.staging.columns import BATCH_SEQ
from tidemark.staging.target import Target

_BOTH = sql.SQL("""
SELECT (SELECT coalesce(sum(rows_moved), 0)::bigint FROM tidemark.batches
        WHERE region = {region} AND state = 'published' AND seq >= {since}),
       (SELECT count(*) FROM {target} WHERE {batch_seq} >= greatest({since}, 1))
""")


def count_beside_ledger(cursor: Cursor, target: Target, region: str, since: int) -> tuple[int, int]:
    """Rows that the ledger moved from a checkpoint on, and those that are there: one snapshot."""
    # literals, because psycopg2 takes a % in a name for a placeholder beside parameters
    statement = _BOTH.format(
        target=target.identifier,
        batch_seq=sql.Identifier(BATCH_SEQ),
        region=sql.Literal(region),
        since=sql.Literal(since),
    )
    cursor.execute(statement)
    ledger, rows = cursor.fetchone() or (0, 0)
    return ledger, rows
