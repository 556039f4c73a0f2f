"""How the last rows reach the target: where no key is there, without looking for each."""

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.staging.refusal import is_refusal
from tidemark.staging.upsert_names import Names

INSERT = sql.SQL("""
INSERT INTO {target} ({names}, {batch_seq})
SELECT {names}, {seq} FROM {last} AS l WHERE NOT "tidemark deleted" AND {taken}
""")
# Right whatever of the keys is there, and whoever inserts one meanwhile.
WRITE = sql.SQL(INSERT.string + "ON CONFLICT ({key}) DO UPDATE SET {set}")


def write_rows(cursor: Cursor, names: Names) -> int:
    """The target has the last rows that are not marked; how many they are.

    Raises:
        psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
    """
    cursor.execute(WRITE.format(**names))
    return cursor.rowcount


def write_new_rows(cursor: Cursor, names: Names) -> int:
    """The same where none of the keys was there a moment ago.

    If another session has inserted one since, or a row is refused, `write_rows` decides.

    Raises:
        psycopg2.Error: see `write_rows`.
    """
    cursor.execute("SAVEPOINT new_rows")
    try:
        cursor.execute(INSERT.format(**names))
        written = cursor.rowcount
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT new_rows")
        written = write_rows(cursor, names)
    cursor.execute("RELEASE SAVEPOINT new_rows")
    return written
