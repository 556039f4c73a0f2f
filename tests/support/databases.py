"""Databases that live longer than one test."""

from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2 import sql

from tidemark.local.postgres import ADMIN, Postgres


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


def make_first_ledger(parameters: dict[str, Any]) -> None:
    """The ledger as the first version made it, at revision 0001, with a region r in it."""
    first = files("tidemark").joinpath("sql", "migrations", "0001_ledger.sql").read_text()
    with closing(psycopg2.connect(**parameters)) as connection, connection:
        cursor = connection.cursor()
        cursor.execute("CREATE SCHEMA tidemark; CREATE SCHEMA tidemark_staging")
        cursor.execute(first)
        cursor.execute("CREATE TABLE tidemark.alembic_version (version_num varchar(32) NOT NULL)")
        cursor.execute("INSERT INTO tidemark.alembic_version VALUES ('0001')")
        cursor.execute(
            "INSERT INTO tidemark.regions (region, group_id, target, cluster_id)"
            " VALUES ('r', 'g', 't', 'c')"
        )
