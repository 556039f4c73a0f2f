"""Databases that live longer than one test."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2 import sql

from tidemark.local._postgres import ADMIN, Postgres


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
