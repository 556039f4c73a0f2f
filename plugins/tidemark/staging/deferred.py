"""Constraints that may be deferred are checked once, when all targets have their rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg2.extensions import cursor as Cursor

from tidemark.staging.refusal import naming_refusals
from tidemark.staging.target import Target


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
