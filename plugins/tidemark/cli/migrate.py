"""`tidemark migrate`: bring the ledger's schema up to date, or print how."""

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.output import Format, Output, Verbose, print_json, print_line
from tidemark.cli.progress import spinning
from tidemark.cli.project import connection


def migrate(
    pipeline: Annotated[
        Path | None, typer.Argument(metavar="PIPELINE", help="The pipeline's YAML file.")
    ] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements and run nothing.")
    ] = False,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Bring the ledger in the target's database to this version's schema.

    Forward only, in one transaction; running it again does nothing. The first run of a pipeline
    does the same by itself. With --sql an administrator can do it, and no PIPELINE is needed.

      tidemark migrate dags/flights.yaml
      tidemark migrate --sql > ledger.sql
    """
    from tidemark.ledger.migrate import migration_sql

    if sql:
        statements = migration_sql()
        print_json({"sql": statements}) if output is Output.json else typer.echo(statements)
        return
    if pipeline is None:
        raise typer.BadParameter("PIPELINE is needed, unless with --sql")
    with spinning("migrating the ledger"):
        revision, changed = _migrate(pipeline)
    if output is Output.json:
        print_json({"revision": revision, "changed": changed})
    else:
        print_line(f"the ledger is at revision {revision}{'' if changed else ', as it was'}")


def _migrate(path: Path) -> tuple[str, bool]:
    from tidemark.connections import postgres_parameters
    from tidemark.ledger.migrate import is_current, migrate, newest
    from tidemark.ledger.transaction import connect
    from tidemark.pipeline import Pipeline

    pipeline = Pipeline.load(path)
    engine = connect(postgres_parameters(connection(pipeline.target.connection)))
    try:
        return (newest(), False) if is_current(engine) else (migrate(engine), True)
    finally:
        engine.dispose()
