"""A session: what it sets for itself, the names that it locks, and the statements that it runs.

Statements stand in sql/queries, each named as the method that runs it, or after it.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import psycopg2
from psycopg2 import extensions

Connection = extensions.connection
Cursor = extensions.cursor

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """The statements of sql/queries by their names: a file for each noun, a name above each."""
    found: dict[str, str] = {}
    for file in files("tidemark").joinpath("sql", "queries").iterdir():
        _, *named = _NAME.split(file.read_text())
        for name, text in zip(named[::2], named[1::2], strict=True):
            if name in found:
                raise ValueError(f"{file.name}: two statements are named {name}")
            found[name] = text.rstrip("\n")
    return found


def query(name: str) -> str:
    """The text of a statement; its parameters are named, `%(region)s`."""
    return queries()[name]


SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""What each session sets for itself, whatever its role has. Names are found in pg_catalog, else by
their schema: nobody's function in `public` can stand in for one of Postgres, with our role's rights
(CVE-2018-1058). And a session whose client's machine is gone ends, and what it held is free."""

_ENCODING = {"client_encoding": "UTF8"}
_SET = "; ".join(f"SET {name} = {value}" for name, value in SETTINGS.items())


def open_session(parameters: Mapping[str, Any]) -> Connection:
    """A session with these settings. By a statement, no `options`: a pooler may drop those.

    Its texts are UTF-8, whatever the role, the database or PGCLIENTENCODING says: COPY sends bytes.

    Raises:
        psycopg2.Error: there is none.
    """
    session: Connection = psycopg2.connect(**{**parameters, **_ENCODING})  # noqa: TID251 (pinned below)
    try:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute(_SET)
        session.autocommit = False
    except BaseException:
        session.close()
        raise
    return session


def is_idle(session: Connection) -> bool:
    """Whether it is open, and no transaction is."""
    return session.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE


def configure(cursor: Cursor, settings: Mapping[str, str], *, is_local: bool) -> None:
    """The settings have these values: to the end of the transaction if local, else of the session.

    By one statement: the server may be far.
    """
    values = {"settings": list(settings), "values": list(settings.values()), "is_local": is_local}
    cursor.execute(query("configure"), values)


_TEXTS = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}


def exact_texts(cursor: Cursor) -> None:
    """To the end of the transaction values become texts, and texts values, without a loss."""
    configure(cursor, _TEXTS, is_local=True)


def lock_name(cursor: Cursor, name: str) -> None:
    """This transaction alone works under the name, to its end; waits for another that does."""
    cursor.execute(query("lock_name"), {"name": name})


def try_lock_name(cursor: Cursor, name: str) -> bool:
    """This session alone works under the name; False, and nothing held, if another does."""
    cursor.execute(query("try_lock_name"), {"name": name})
    return cursor.fetchone() == (True,)


def unlock_name(cursor: Cursor, name: str) -> None:
    """Release the lock that `try_lock_name` took."""
    cursor.execute(query("unlock_name"), {"name": name})
