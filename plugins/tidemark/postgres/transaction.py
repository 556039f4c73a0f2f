"""BEGIN … COMMIT, and the proof that COMMIT meant commit.

Drivers report an aborted COMMIT as success, and a lost connection at COMMIT says
nothing about its outcome. Both are decided here, once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg2
from sqlalchemy import Engine, create_engine, event

from tidemark import failpoints
from tidemark.postgres.errors import CommitRolledBack, CommitUnanswered, translated, unreachable
from tidemark.postgres.session import Connection, Cursor, configure, open_session

TIMEOUTS_MS = {
    "lock_timeout": 900_000,  # as long as the statement of a publish that is waited for
    "statement_timeout": 900_000,
    "idle_in_transaction_session_timeout": 60_000,
}
"""Part of the protocol: a stopped holder of the region lock must go away by itself."""

_A_DAY_MS = {"statement_timeout": 86_400_000}
LONGER_MS: Mapping[str, Mapping[str, int]] = dict.fromkeys(("migrate", "rewind", "drop"), _A_DAY_MS)
"""By a transaction's name: one statement changes all of a region, or all since a checkpoint."""

_LOOKING_MS = {**TIMEOUTS_MS, "idle_in_transaction_session_timeout": 900_000}
"""Whoever looks may be slow with what it sees: others do not wait for it."""

_TIDYING_MS = {"lock_timeout": 1_000, "statement_timeout": 20_000}
SHORTER_MS = dict.fromkeys(("retire", "prune", "refused_open"), _TIDYING_MS)
"""What tidies up after a run, or tells of it, keeps nobody waiting: the next time does it too."""


def connect(parameters: Mapping[str, Any]) -> Engine:
    """A small pool of psycopg2 connections in autocommit: transactions are spelled out here."""
    engine = create_engine(
        "postgresql+psycopg2://",
        creator=lambda: open_session(parameters),
        pool_size=2,
        max_overflow=4,
        pool_pre_ping=True,
    )

    @event.listens_for(engine, "connect")
    def _autocommit(connection: Connection, _: object) -> None:
        connection.autocommit = True

    return engine


def timeouts_of(name: str) -> dict[str, int]:
    """The time-outs of a transaction, in milliseconds."""
    return {**TIMEOUTS_MS, **LONGER_MS.get(name, {}), **SHORTER_MS.get(name, {})}


@contextmanager
def transaction(
    engine: Engine, name: str, timeouts_ms: Mapping[str, int] | None = None
) -> Iterator[Cursor]:
    """One transaction: committed, and known to be, when this returns.

    If it crashes: nothing of it stands, unless COMMIT had been sent.

    Raises:
        Unreachable: the connection failed, or the server gave up, before COMMIT was sent; nothing
            stands.
        OutcomeUnknown: it failed after; only a look under the region lock can tell.
        CommitRefused: COMMIT was answered with another tag.
    """
    with _connection(engine) as connection, connection.cursor() as cursor:
        try:
            begin(cursor, name, timeouts_ms)
            yield cursor
        except psycopg2.Error as error:
            raise translated(error) from error
        failpoints.hit(f"{name}.commit.before")
        _commit(cursor, name)
        failpoints.hit(f"{name}.commit.after")


@contextmanager
def snapshot(engine: Engine, timeouts_ms: Mapping[str, int] = _LOOKING_MS) -> Iterator[Cursor]:
    """A cursor whose statements all see one moment; it locks nothing and changes nothing.

    Raises:
        Unreachable: Postgres does not answer.
    """
    with autocommit(engine) as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        configure(cursor, {one: f"{ms}ms" for one, ms in timeouts_ms.items()}, is_local=True)
        yield cursor
        cursor.execute("ROLLBACK")


@contextmanager
def autocommit(engine: Engine) -> Iterator[Cursor]:
    """A cursor for statements that decide nothing: each its own transaction, no lock.

    Raises:
        Unreachable: Postgres does not answer.
    """
    with _connection(engine) as connection, connection.cursor() as cursor:
        try:
            yield cursor
        except psycopg2.Error as error:
            raise translated(error) from error


@contextmanager
def _connection(engine: Engine) -> Iterator[Connection]:
    """A connection of the pool; one whose block failed is never used again."""
    try:
        pooled = engine.raw_connection()
    except psycopg2.Error as error:
        raise translated(error) from error
    try:
        yield pooled.driver_connection  # type: ignore[misc]
    except BaseException:
        pooled.invalidate()
        raise
    finally:
        pooled.close()


def begin(cursor: Cursor, name: str, timeouts_ms: Mapping[str, int] | None = None) -> None:
    """Begin a transaction with its time-outs, whatever the defaults of role and database are.

    Raises:
        Unreachable: this is a standby.
    """
    try:
        # The region lock orders decisions only if each statement sees what the last one left.
        cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    except psycopg2.NotSupportedError as error:  # a standby can't
        raise unreachable(error) from error
    timeouts = timeouts_ms or timeouts_of(name)
    configure(cursor, {one: f"{ms}ms" for one, ms in timeouts.items()}, is_local=True)


def _commit(cursor: Cursor, name: str) -> None:
    try:
        failpoints.hit(f"{name}.commit.lost")
        cursor.execute("COMMIT")
        failpoints.hit(f"{name}.commit.sent")
    except (psycopg2.Error, failpoints.FailpointHit) as error:
        if isinstance(error, psycopg2.IntegrityError):
            raise translated(error) from error  # a deferred constraint: definitely not committed
        raise CommitUnanswered(transaction=name) from error
    if cursor.statusmessage != "COMMIT":
        raise CommitRolledBack(transaction=name, answer=cursor.statusmessage)
