"""A target that refuses a row: recognised by SQLSTATE, reported without the row's data.

Constraints that may be deferred are checked once, when all targets have their rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2
import psycopg2.errorcodes

from tidemark.postgres.session import Cursor
from tidemark.staging.errors import RowRefused
from tidemark.staging.target import Target

UNIQUE = ("23505", "23P01")
REFERS = ("23503", "23001")
"""SQLSTATEs of a row that is refused for what other rows are, or for rows that are not there."""

SERVERS_TROUBLE = ("08", "25", "40", "53", "57", "58", "XX", "55P03")
"""SQLSTATEs that begin so do not concern rows: the server is gone, gave up, or is full."""


def is_refusal(error: psycopg2.Error) -> bool:
    """Whether an INSERT into the target, or a DELETE, failed because the table refuses a row.

    The SQLSTATE decides, not psycopg2's class of exception: a trigger may raise any code.
    """
    code = error.pgcode
    if code is None or code.startswith(SERVERS_TROUBLE):
        return False
    # 42 outside a trigger concerns the statement, not a row: a right or a column is gone
    return not code.startswith("42") or error.diag.context is not None


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
        condition=_condition(code),
    )


def _names(error: psycopg2.Error) -> dict[str, str]:
    named = {
        "constraint": error.diag.constraint_name,
        "column": error.diag.column_name,
        "type": error.diag.datatype_name,
        "table": ".".join(filter(None, (error.diag.schema_name, error.diag.table_name))),
    }
    return {kind: name for kind, name in named.items() if name}


def _condition(code: str) -> str:
    try:
        return psycopg2.errorcodes.lookup(code)
    except KeyError:
        return "of the target's own"


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
