"""Postgres as a task meets it: sessions that end by themselves, and errors in our words."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg2.errors
from psycopg2.extensions import connection as Connection

from tidemark.postgres.errors import NO_ANSWER, StagingDiscarded, unreachable
from tidemark.postgres.session import configure, open_session

TASK_TIMEOUTS = {
    "statement_timeout": "15min",
    "lock_timeout": "1min",
    "idle_in_transaction_session_timeout": "1h",
}
"""What a task's session sets for itself, whatever its role has: an executor that stopped holds no
staging table for ever. A statement is one block of rows, however many blocks the task stages; idle
in a transaction is a task that waits for its source or transform."""


def connected(parameters: Mapping[str, Any]) -> Connection:
    """A task's own session, with the time-outs of a task.

    Raises:
        psycopg2.Error: there is none; inside `postgres_errors` it is Unreachable.
    """
    connection = open_session(parameters)
    try:
        with connection, connection.cursor() as cursor:
            configure(cursor, TASK_TIMEOUTS, is_local=False)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Inside, what a task can't do anything about comes out as one of our errors.

    Raises:
        Unreachable: Postgres does not answer or refuses the login.
        StagingLost: a staging table is gone.
    """
    try:
        yield
    except NO_ANSWER as error:
        raise unreachable(error) from error
    except psycopg2.errors.UndefinedTable as error:
        raise StagingDiscarded from error
