"""`tidemark migrate`: bring the ledger's schema up to date, or print how."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.errors import tell
from tidemark.cli.output import Format, ResultFormat, Verbose, print_json, print_line, spinning
from tidemark.cli.project import connection
from tidemark.ledger import migrate as migrations
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.transaction import connect
from tidemark.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from sqlalchemy import Engine


def migrate(
    pipeline: Annotated[
        Path | None, typer.Argument(metavar="PIPELINE", help="The pipeline's YAML file.")
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements and run nothing.")
    ] = False,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Bring the ledger in the target's database to this version's schema.

    It goes forward only, in one transaction; running it again does nothing. The first run of a
    pipeline does the same by itself.

    With --sql it runs nothing and prints the statements, for an administrator: those that the
    pipeline's database lacks, or, without a PIPELINE and without any connection, all of them.

      tidemark migrate dags/flights.yaml
      tidemark migrate --sql > ledger.sql
      tidemark migrate --sql dags/flights.yaml > upgrade.sql
    """
    if sql:
        _print_statements(pipeline, output)
        return
    if pipeline is None:
        raise typer.BadParameter("PIPELINE is needed, unless with --sql")
    with spinning("migrating the ledger"):
        revision, changed = _migrate(pipeline)
    if output is ResultFormat.json:
        print_json({"revision": revision, "changed": changed})
    else:
        print_line(f"the ledger is at revision {revision}{'' if changed else ': nothing changed'}")


def _print_statements(pipeline: Path | None, output: ResultFormat) -> None:
    """What is to be run on stdout; that there is nothing to run on stderr."""
    since = _present(pipeline) if pipeline else None
    statements = migrations.migration_sql(since)
    if output is ResultFormat.json:
        print_json({"since": since, "sql": statements})
    elif statements:
        typer.echo(statements)
    else:
        tell(f"the ledger is at revision {since}: there is nothing to run")


def _present(path: Path) -> str | None:
    with _engine(path) as engine:
        return migrations.present(engine)


def _migrate(path: Path) -> tuple[str, bool]:
    with _engine(path) as engine:
        if migrations.is_current(engine):
            return migrations.newest(), False
        return migrations.migrate(engine), True


@contextmanager
def _engine(path: Path) -> "Iterator[Engine]":
    """The pipeline's database, for as long as the block runs."""
    pipeline = Pipeline.load(path)
    engine = connect(postgres_parameters(connection(pipeline.warehouse)))
    try:
        yield engine
    finally:
        engine.dispose()
