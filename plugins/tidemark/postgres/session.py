"""What a session sets for itself, and the names that it locks."""

from collections.abc import Mapping

from psycopg2.extensions import cursor as Cursor

from tidemark.postgres.queries import query


def configure(cursor: Cursor, settings: Mapping[str, str], *, is_local: bool) -> None:
    """The settings have these values: to the end of the transaction if local, else of the session.

    By one statement: the server may be far.
    """
    values = {"settings": list(settings), "values": list(settings.values()), "is_local": is_local}
    cursor.execute(query("configure"), values)


def lock_name(cursor: Cursor, name: str) -> None:
    """This transaction alone works under the name, to its end; waits for another that does."""
    cursor.execute(query("lock_name"), {"name": name})


def try_lock_name(cursor: Cursor, name: str) -> bool:
    """This session alone works under the name; False, and nothing held, if another does."""
    cursor.execute(query("try_lock_name"), {"name": name})
    return cursor.fetchone() == (True,)


def unlock_name(cursor: Cursor, name: str) -> None:
    """What `try_lock_name` held is free."""
    cursor.execute(query("unlock_name"), {"name": name})
