"""A target that refuses a row: recognised by SQLSTATE, reported without the row's data.

Constraints that may be deferred are checked once, when all targets have their rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2
from psycopg2 import errorcodes

from tidemark.postgres.errors import condition
from tidemark.postgres.fate import Fate, fate
from tidemark.postgres.session import Cursor
from tidemark.staging.errors import RowRefused
from tidemark.staging.target import Target

UNIQUE = ("23505", "23P01")
REFERS = ("23503", "23001")
"""SQLSTATEs of a row that is refused for what other rows are, or for rows that are not there."""


def is_refusal(error: psycopg2.Error) -> bool:
    """Whether an INSERT into the target, or a DELETE, failed because the table refuses a row.

    The SQLSTATE decides, not psycopg2's class of exception: a trigger may raise any code.
    """
    code = error.pgcode
    if code is None:
        return False
    if code.startswith(("42", "55")) and code != errorcodes.LOCK_NOT_AVAILABLE:
        # outside a trigger the statement: a right is gone, or a publication is in the way
        return error.diag.context is not None
    return fate(error) is not Fate.server


def rests_on_others(error: psycopg2.Error) -> bool:
    """Whether a row was refused for what other rows are, or are not: it may go in after them."""
    return is_refusal(error) and error.pgcode in (*UNIQUE, *REFERS)


@contextmanager
def naming_refusals(targets: Sequence[Target]) -> Iterator[None]:
    """Raise TargetRefused, without the row's data, where a statement on a target is refused.

    Raises:
        TargetRefused: the target refuses a row; other errors pass through unchanged.
    """
    try:
        yield
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        # not chained: the DETAIL of the server's error quotes the row
        raise target_refused(error, targets) from None


def target_refused(error: psycopg2.Error, targets: Sequence[Target]) -> RowRefused:
    """The error that names the target's constraint, column or type, without the row's data.

    Raise it `from None`: the DETAIL of the server's error quotes the row.
    """
    place = error.diag.schema_name, error.diag.table_name
    known = [one for one in targets if (one.schema, one.table) == place] or targets
    code = error.pgcode or "unknown"
    return RowRefused(
        targets=tuple(map(str, known)),
        names=_names(error),
        sqlstate=code,
        condition=condition(code),
    )


def _names(error: psycopg2.Error) -> dict[str, str]:
    code = error.pgcode or ""
    is_limit = code.startswith("54") and error.diag.context is None  # else of a trigger's own words
    named = {
        "limit": error.diag.message_primary if is_limit else None,
        "constraint": error.diag.constraint_name,
        "column": error.diag.column_name,
        "type": error.diag.datatype_name,
        "table": ".".join(filter(None, (error.diag.schema_name, error.diag.table_name))),
    }
    return {kind: name for kind, name in named.items() if name}


@contextmanager
def all_deferred(cursor: Cursor, targets: Sequence[Target]) -> Iterator[None]:
    """Inside, rows of one target may refer to rows that another one does not have yet.

    At its end they are checked, and not by the COMMIT.

    Raises:
        TargetRefused: a constraint refuses a row.
    """
    cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    yield
    with naming_refusals(targets):
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
