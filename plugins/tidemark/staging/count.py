"""The number of rows in a target, and the number that the ledger counted."""

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.target import Target

_BOTH = sql.SQL("""
SELECT (SELECT coalesce(sum(l.rows), 0)::bigint
        FROM tidemark.rows_left({region}, {name}, {since}) l),
       (SELECT count(*) FROM {target} WHERE {batch_seq} >= greatest({since}, 1))
""")


def count_beside_ledger(cursor: Cursor, target: Target, region: str, since: int) -> tuple[int, int]:
    """Rows from a checkpoint on: as the ledger counted them, and in the target; one snapshot."""
    # literals: if there are parameters, psycopg2 reads a % in a name as a placeholder
    statement = _BOTH.format(
        target=target.identifier,
        batch_seq=sql.Identifier(BATCH_SEQ),
        name=sql.Literal(target.name),
        region=sql.Literal(region),
        since=sql.Literal(since),
    )
    cursor.execute(statement)
    ledger, rows = cursor.fetchone() or (0, 0)
    return ledger, rows
