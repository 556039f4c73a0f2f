"""New columns: what an existing target lacks of the rows, added where the pipeline consents.

They may be null: older rows have no value. No type is changed, no column dropped.
"""

from collections.abc import Sequence

import psycopg2
from psycopg2 import errorcodes, sql
from psycopg2.extensions import cursor as Cursor

from tidemark.postgres.session import lock_name
from tidemark.staging.catalog import find_columns, find_relation
from tidemark.staging.column import Column
from tidemark.staging.errors import ColumnsMayNotBeAdded
from tidemark.staging.target import Target

_ALTER = sql.SQL("ALTER TABLE {target} {columns}")


def add_columns(cursor: Cursor, target: Target, columns: Sequence[Column]) -> dict[str, str]:
    """Add the columns that the target lacks; by name, their types. None to a table that is not.

    Runs in the caller's transaction, under the lock of `ensure`, which judges the table after.

    Raises:
        Refused: the table is another role's.
    """
    lock_name(cursor, f"tidemark {target}")
    if find_relation(cursor, target.schema, target.table) is None:
        return {}
    known = {own.name for own in find_columns(cursor, target.schema, target.table)}
    missing = [column for column in columns if column.name not in known]
    if not missing:
        return {}
    added = [
        sql.SQL("ADD COLUMN {} " + column.postgres_type).format(sql.Identifier(column.name))
        for column in missing
    ]
    types = {column.name: column.postgres_type for column in missing}
    statement = _ALTER.format(target=target.identifier, columns=sql.SQL(", ").join(added))
    try:
        cursor.execute(statement)
    except psycopg2.Error as error:
        if error.pgcode not in (errorcodes.INSUFFICIENT_PRIVILEGE, errorcodes.WRONG_OBJECT_TYPE):
            raise
        cause = error.diag.message_primary or ""
        raise ColumnsMayNotBeAdded(target=str(target), columns=types, cause=cause) from error
    return types
