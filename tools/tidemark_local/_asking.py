"""A statement for the local warehouse: rows are seen without another program."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg2
from psycopg2.extensions import new_type, register_type, string_types

from tidemark_local.errors import LocalPostgresSilent, LocalStatementRefused

MOST = 1000
"""Rows that are shown."""
_AS_TOLD = new_type(tuple(string_types), "AS_TOLD", lambda value, _: value)
"""Values as the texts that Postgres sends: Python has no infinity of times, nor years before 1."""
SECONDS = 5
"""For the server to answer a new connection."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What a statement has answered."""

    status: str
    """Postgres' word: SELECT 3."""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = field(default=(), repr=False)
    """The first MOST."""
    count: int = 0


def ask(parameters: Mapping[str, Any], statement: str) -> StatementResult:
    """The statement is committed; if it fails, nothing of it stands.

    Raises:
        Unreachable: nothing answers.
        InvalidSettings: Postgres refuses the statement.
    """
    try:
        connection = psycopg2.connect(**parameters, connect_timeout=SECONDS)
    except psycopg2.OperationalError as error:
        raise LocalPostgresSilent(port=parameters["port"], cause=str(error).strip()) from error
    with closing(connection):
        register_type(_AS_TOLD, connection)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement)
                return _answer(cursor)
        except psycopg2.Error as error:
            raise LocalStatementRefused(cause=str(error).strip()) from error


def _answer(cursor: Any) -> StatementResult:
    if cursor.description is None:
        return StatementResult(cursor.statusmessage or "nothing was asked")
    names = [column.name for column in cursor.description]
    return StatementResult(cursor.statusmessage, names, cursor.fetchmany(MOST), cursor.rowcount)
