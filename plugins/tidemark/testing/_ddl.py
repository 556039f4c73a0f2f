"""Whether a pipeline's rows fit the tables that a DDL makes: Postgres and a run's rules judge."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import LiteralString

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from tidemark.errors import InvalidSettings, Refused, SchemaMismatch, packages_of, quoted
from tidemark.postgres.session import Cursor, configure, open_session, settle
from tidemark.runs.fit import fit
from tidemark.runs.targets import writers_of
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.cluster import find_project
from tidemark.spark.sample import transformed_sample
from tidemark.spark.specs import columns_given
from tidemark.staging.errors import TargetDoesNotFit, TargetsDoNotFit
from tidemark.staging.target_writer import TargetWriters
from tidemark.testing._transform import refuse_registered, spark_session
from tidemark.testing.errors import DdlRefused, DdlWithoutTable


def ddl_faults(pipeline: str | Path, ddl: str) -> list[str]:
    """Why rows of the pipeline do not fit the tables that the DDL makes; none if they do.

    `ddl` is SQL that makes the table of every target in an empty database, and all that these need:
    your migrations, one after the other. Judged are the columns after the transform, as a run would
    judge them when it opens. Rights are not: all is done as a superuser.

    The first call starts a Postgres of this process alone, on 127.0.0.1; it ends with the process.

    Raises:
        InvalidSettings: the file or the transform can't be used; Postgres refuses the DDL, or it
            lacks a target's table.
        TransformFailed, SchemaMismatch: see `run_transform`.
        MissingExtra, NotStarted: there is no Postgres to start, or it does not start.
    """
    loaded = Pipeline.load(pipeline)
    refuse_registered(loaded)
    find_project(loaded.project)
    none = pa.Table.from_batches([], columns_given(loaded.decode))
    made = transformed_sample(loaded.named_transform, none, spark_session)
    writers = writers_of(loaded, {name: rows.schema for name, rows in made.items()})
    with _empty_database() as cursor:
        _run(cursor, ddl)
        return list(_faults(cursor, writers))


@contextmanager
def _empty_database() -> Iterator[Cursor]:
    """A transaction in a database of its own; both are gone at the end."""
    with packages_of("testing", "a check of DDL"):
        from tidemark_local.postgres import ADMIN, throwaway
    server, name = throwaway(), f"ddl_{token_hex(4)}"
    with closing(open_session(server.parameters("postgres", ADMIN))) as session:
        session.autocommit = True
        _on_database(session.cursor(), "CREATE DATABASE {} TEMPLATE template0", name)
        try:
            with closing(open_session(server.parameters(name, ADMIN))) as judged:
                yield judged.cursor()
        finally:
            _on_database(session.cursor(), "DROP DATABASE {} WITH (FORCE)", name)


def _on_database(cursor: Cursor, statement: LiteralString, name: str) -> None:
    cursor.execute(sql.SQL(statement).format(sql.Identifier(name)))


def _run(cursor: Cursor, ddl: str) -> None:
    """The DDL has run as in psql, and the session is as those of a run."""
    configure(cursor, {"search_path": '"$user", public'}, is_local=False)
    try:
        cursor.execute(ddl)
    except psycopg2.Error as error:
        at = error.diag.statement_position
        line = ddl.count("\n", 0, int(at)) + 1 if at else None
        raise DdlRefused(cause=error.diag.message_primary or str(error), line=line) from error
    settle(cursor)


def _faults(cursor: Cursor, writers: TargetWriters) -> Iterator[str]:
    try:
        found = fit(cursor, writers)
    except TargetsDoNotFit as error:
        for cause in error.causes:
            yield from _parts(cause)
    except (InvalidSettings, Refused, SchemaMismatch) as error:
        yield from _parts(error)
    else:
        if missing := tuple(str(writer.target) for writer, is_made in found.tables if is_made):
            raise DdlWithoutTable(targets=missing)


def _parts(error: Exception) -> Iterator[str]:
    """A text for each column that does not fit, or that of the error."""
    if not isinstance(error, TargetDoesNotFit):
        yield str(error)
        return
    for one in error.differences:
        remedy = f" (ALTER TABLE {error.target} {', '.join(one.actions)};)" if one.actions else ""
        yield f"{error.target}: {quoted(one.column)}: {one.fact}{remedy}"
