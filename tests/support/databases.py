"""Databases that live longer than one test, and where a server keeps its files."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2 import sql

from tidemark_local.postgres import ADMIN, Postgres, unprivileged

MEMORY = Path("/dev/shm")
ROOM = 6 << 30
"""Bytes that must be free there: a session uses a tenth of them."""


def put_in_memory(home: Path) -> None:
    """A new server keeps its files in memory, if there is room; one that has files keeps them.

    To make and drop a database on a disk takes a second, and this suite does so 700 times.
    """
    if home.exists() or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return
    made = Path(tempfile.mkdtemp(prefix="tidemark-test-", dir=MEMORY))
    unprivileged().own(made)
    home.unlink(missing_ok=True)  # it may lead to what is gone
    home.symlink_to(made)


def take_from_memory(home: Path) -> None:
    """What a server keeps there goes: nothing else of it would end with the session."""
    if home.is_symlink() and home.resolve().is_relative_to(MEMORY):
        shutil.rmtree(home.resolve(), ignore_errors=True)
        home.unlink()


def database_of(server: Postgres) -> Iterator[dict[str, Any]]:
    """A new database, dropped at the end."""
    name = f"shared_{uuid4().hex[:12]}"
    owner = server.parameters("warehouse")
    administer(server, "CREATE DATABASE {} OWNER {}", name, owner["user"])
    yield owner | {"dbname": name}
    administer(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def administer(server: Postgres, statement: str, *names: str, **values: str) -> None:
    """Run a statement as the server's administrator."""
    with closing(psycopg2.connect(**server.parameters("postgres", ADMIN))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)), values or None)
