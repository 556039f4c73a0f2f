"""Migrations: forward only, each executes one file of sql/migrations."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from io import StringIO
from typing import cast

import psycopg2
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from tidemark.ledger.errors import LedgerIsNewer
from tidemark.model.table_name import OURS
from tidemark.postgres.errors import translated
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import begin

SCHEMAS = OURS
MIGRATION_LOCK = 0x7469_6465  # "tide": one migration at a time in a database


def migrate(engine: Engine) -> str:
    """Migrate the ledger's schema to the newest revision, if it is older; return that revision.

    If it crashes: all of it took effect or nothing, because it is one transaction.

    Raises:
        Unreachable: Postgres does not answer.
        Refused: the role lacks a right, or a newer Tidemark has migrated the ledger.
    """
    with _connected(engine) as connection:
        # Detached, so closed at the end: a connection that failed after BEGIN must not be pooled.
        connection.detach()
        with closing(cast("Cursor", connection.connection.cursor())) as cursor:
            begin(cursor, "migrate")
        connection.exec_driver_sql(query("lock_migrations"), {"key": MIGRATION_LOCK})
        _present(connection)
        for schema in SCHEMAS:
            if not inspect(connection).has_schema(schema):
                connection.execute(text(f"CREATE SCHEMA {schema}"))
        with _config() as config:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        connection.execute(text("COMMIT"))
    return newest()


def is_current(engine: Engine) -> bool:
    """Whether the ledger's schema is at the newest revision that this version knows.

    Raises:
        Unreachable: Postgres does not answer.
        Refused: the role may not read it, or a newer Tidemark has migrated it.
    """
    return present(engine) == newest()


def present(engine: Engine) -> str | None:
    """The ledger's revision; None if there is no ledger.

    Raises:
        Unreachable: Postgres does not answer.
        Refused: the role may not read it, or a newer Tidemark has migrated it.
    """
    with _connected(engine) as connection:
        return _present(connection)


def migration_sql(since: str | None = None) -> str:
    """The SQL after a revision, or all of it, to run by hand; empty if there is nothing to do."""
    if since == newest():
        return ""
    out = StringIO()
    with _config(out) as config:
        command.upgrade(config, f"{since or 'base'}:head", sql=True)
    return (
        "".join(f"CREATE SCHEMA IF NOT EXISTS {schema};\n" for schema in SCHEMAS) + out.getvalue()
    )


def newest() -> str:
    """The newest revision that this version of Tidemark knows."""
    with _config() as config:
        return ScriptDirectory.from_config(config).get_current_head() or ""


def _present(connection: Connection) -> str | None:
    options = {"version_table_schema": SCHEMAS[0]}
    found: str | None = MigrationContext.configure(connection, opts=options).get_current_revision()
    if found is not None and found not in _known():
        raise LedgerIsNewer(revision=found, newest=newest())
    return found


def _known() -> set[str]:
    """The revisions that this version of Tidemark knows."""
    with _config() as config:
        script = ScriptDirectory.from_config(config)
        return {revision.revision for revision in script.walk_revisions()}


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    """A SQLAlchemy connection whose errors are translated into Tidemark's."""
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise translated(cast("psycopg2.Error", error.orig)) from error
    except psycopg2.Error as error:  # of what goes past SQLAlchemy
        raise translated(error) from error


@contextmanager
def _config(out: StringIO | None = None) -> Iterator[Config]:
    with as_file(files("tidemark").joinpath("ledger", "migrations")) as scripts:
        config = Config(output_buffer=out)
        config.set_main_option("script_location", str(scripts))
        yield config
