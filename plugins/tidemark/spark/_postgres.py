"""Postgres as a task meets it: sessions that end by themselves, and errors in our words.

A process keeps its sessions for the next task, which need not log in again.
"""

import os
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg2.errors

from tidemark.deadline import Deadline
from tidemark.postgres.errors import StagingDiscarded, translated
from tidemark.postgres.session import Connection, configure, is_idle, open_session

TASK_TIMEOUTS = {
    "statement_timeout": "15min",
    "lock_timeout": "1min",
    "idle_in_transaction_session_timeout": "1h",
}
"""What a task's session sets for itself, whatever its role has: an executor that stopped holds no
staging table for ever. A statement is one block of rows, however many blocks the task stages; idle
in a transaction is a task that waits for its source or transform."""

KEPT_SECONDS = 60.0
"""A session that was idle for longer is not used: a firewall may have forgotten it by then."""

_KEPT_AT_MOST = 2
"""A task has one for its rows, and one for what it records of its spans."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An idle session, outside of any transaction."""

    connection: Connection
    parameters: Mapping[str, Any]
    process: int
    until: Deadline

    def is_as_new(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a task that connects so may have it; what the server says unasked is its end."""
        is_like = self._is_ours and self.parameters == parameters
        if not is_like or self.until.is_past:
            return False
        return not select.select([self.connection], [], [], 0)[0]

    def end(self) -> None:
        """It is not used again; one of a parent process is the parent's to close."""
        if self._is_ours:
            self.connection.close()

    @property
    def _is_ours(self) -> bool:
        return self.process == os.getpid()


_kept: list[_Kept] = []


@contextmanager
def task_session(parameters: Mapping[str, Any]) -> Iterator[Connection]:
    """A session for one task, new or as new. It is kept if its last transaction has ended well.

    Raises:
        psycopg2.Error: there is none; inside `postgres_errors` it is Unreachable.
    """
    connection = _reused(parameters) or connected(parameters)
    try:
        yield connection
    finally:
        _keep(connection, parameters)


def end_sessions() -> None:
    """This process keeps none for a further task."""
    with suppress(IndexError):
        while True:
            _kept.pop().end()


def _reused(parameters: Mapping[str, Any]) -> Connection | None:
    with suppress(IndexError):
        while True:
            found = _kept.pop()
            if found.is_as_new(parameters):
                return found.connection
            found.end()
    return None


def _keep(connection: Connection, parameters: Mapping[str, Any]) -> None:
    if is_idle(connection) and len(_kept) < _KEPT_AT_MOST:
        _kept.append(_Kept(connection, dict(parameters), os.getpid(), Deadline(KEPT_SECONDS)))
    else:
        connection.close()


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
        Refused: see `translated`.
    """
    try:
        yield
    except psycopg2.errors.UndefinedTable as error:
        raise StagingDiscarded from error
    except psycopg2.Error as error:
        raise translated(error) from error
