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

from tidemark.postgres.errors import SettingNotAsNeeded
from tidemark.tokens.callbacks import with_password

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


SETTINGS: Mapping[str, str] = {
    # Names are found in pg_catalog, else by their schema: nobody's function in `public` can stand
    # in for one of Postgres, with our role's rights (CVE-2018-1058).
    "search_path": "pg_catalog, pg_temp",
    # A session whose client's machine is gone ends, and what it held is free; no other ends by a
    # time-out of people's sessions.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
    "tcp_user_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "15min",
    "transaction_timeout": "0",
    "statement_timeout": "24h",
    "lock_timeout": "15min",
    "exit_on_error": "off",
    # A write outside of `begin` that waited for another sees what that one left.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    # Values become texts, and texts values, without a loss and in one way.
    "timezone": "UTC",
    "timezone_abbreviations": "Default",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "array_nulls": "on",
    "xmloption": "content",
    "xmlbinary": "base64",
    # A statement means what it says, and finds all rows.
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "restrict_nonsystem_relation_kind": "",
    "gin_fuzzy_search_limit": "0",
    # Staging and ledger rest on what heaps do: UNLOGGED, ctid, updates.
    "default_table_access_method": "heap",
}
"""What each session sets for itself, whatever server, database and role have. What a server does
not know, as an older one `transaction_timeout`, is left out."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    "session_replication_role": ("origin", "local"),
    "zero_damaged_pages": ("off",),
    "ignore_checksum_failure": ("off",),
}
"""What only a superuser sets, and each session asks for, by the values that will do, the default
first: else foreign keys and triggers do not fire, or rows that a disk has damaged are missing
without a word."""

EXACT_TEXTS = (
    "timezone", "timezone_abbreviations", "datestyle", "intervalstyle", "bytea_output",
    "extra_float_digits", "lc_monetary", "array_nulls", "xmloption",
)  # fmt: skip
"""Of the settings, those that decide how a value is spelled and a text is read."""

_ENCODING = {"client_encoding": "UTF8"}


def open_session(parameters: Mapping[str, Any]) -> Connection:
    """A session with these settings. By a statement, no `options`: a pooler may drop those.

    Its texts are UTF-8, whatever the role, the database or PGCLIENTENCODING says: COPY sends bytes.

    Raises:
        psycopg2.Error: there is none.
        Refused: a setting that the role may not change is not as needed.
        InvalidSettings, Unreachable: a callback makes the password, and made none.
    """
    login = with_password(parameters)
    session: Connection = psycopg2.connect(**{**login, **_ENCODING})  # noqa: TID251 (pinned below)
    try:
        session.autocommit = True
        with session.cursor() as cursor:
            settle(cursor)
        session.autocommit = False
    except BaseException:
        session.close()
        raise
    return session


def settle(cursor: Cursor) -> None:
    """The session is as SETTINGS say.

    Raises:
        Refused: a setting that the role may not change is not as needed.
    """
    wanted = {**SETTINGS, **dict.fromkeys(NEEDED)}
    given = {"settings": list(wanted), "values": list(wanted.values())}
    cursor.execute(query("settle_session"), given)
    for setting, found in cursor.fetchall():
        if found not in NEEDED.get(setting, (found,)):
            raise SettingNotAsNeeded(setting=setting, found=found, needed=NEEDED[setting][0])


def is_idle(session: Connection) -> bool:
    """Whether it is open, and no transaction is."""
    return session.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE


def encoding_of(cursor: Cursor) -> str:
    """The database's own encoding, as Postgres names it; the server has said it at the login."""
    return cursor.connection.info.parameter_status("server_encoding") or "UTF8"


def configure(cursor: Cursor, settings: Mapping[str, str], *, is_local: bool) -> None:
    """The settings have these values: to the end of the transaction if local, else of the session.

    By one statement: the server may be far.
    """
    values = {"settings": list(settings), "values": list(settings.values()), "is_local": is_local}
    cursor.execute(query("configure"), values)


def exact_texts(cursor: Cursor, others: Mapping[str, str] | None = None) -> None:
    """To the end of the transaction values become texts, and texts values, without a loss.

    `others` are settings beside those.
    """
    exact = {one: SETTINGS[one] for one in EXACT_TEXTS}
    configure(cursor, {**exact, **(others or {})}, is_local=True)


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
