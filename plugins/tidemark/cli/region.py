"""`tidemark region list` and `actions`: which regions there are, and what was done to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.output import Format, Output, Verbose, print_json, print_table
from tidemark.cli.progress import spinning
from tidemark.cli.project import DAGS, PipelinesDir, connection, pipelines_in
from tidemark.cli.region_changes import OfLedger
from tidemark.model.plain import plain

if TYPE_CHECKING:
    from tidemark.ledger.looks import Looks


def list_(
    conn_id: OfLedger = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """List every region of the ledgers that the pipeline files lead to, or of one connection.

    Also those without a file: their names, groups and targets are taken.

      tidemark region list
      tidemark region list --connection tidemark_warehouse
    """
    names = {pipeline.region for pipeline in pipelines_in(pipelines, [])}
    with spinning("looking at the ledgers"):
        found = [one for looks in _ledgers(conn_id, pipelines) for one in looks.regions()]
    if output is Output.json:
        print_json([plain(one) | {"has_file": one.region in names} for one in found])
        return
    columns = ("region", "state", "epoch", "head", "last checkpoint", "dead letters", "group",
               "target", "file")  # fmt: skip
    print_table(
        columns,
        [
            (
                one.region,
                one.state,
                one.epoch,
                one.head_seq,
                one.last_checkpoint_at,
                one.dead_letters,
                one.group,
                one.target,
                "yes" if one.region in names else "none",
            )
            for one in found
        ],
    )


def actions(
    region: Annotated[
        str | None, typer.Argument(metavar="[REGION]", help="Only those of this region.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10**9, help="How many, from the newest.")] = 20,
    conn_id: OfLedger = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """List what people did to regions besides resets: purges, renamings, overrides; newest first.

    Also of regions that are gone. Each with who, when, why, and what became of it. Who is as the
    machine or Airflow names the person; login is the role that Postgres knew.

      tidemark region actions
      tidemark region actions flights -o json
    """
    with spinning("looking at the ledgers"):
        ledgers = _ledgers(conn_id, pipelines)
        found = [one for looks in ledgers for one in looks.actions(region, limit)]
    if output is Output.json:
        print_json([plain(one) for one in found])
        return
    rows = [(one.at, one.region, one.kind, one.requested_by, one.database_user, one.why,
             _told(one.details)) for one in found]  # fmt: skip
    print_table(("at", "region", "what", "who", "login", "why", "details"), rows)


def _told(details: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in details.items())


def _ledgers(conn_id: str | None, folder: Path) -> "Iterator[Looks]":
    """Each ledger once: that of the connection, or those that the pipeline files lead to."""
    from tidemark.ledger.looks import Looks
    from tidemark.operations.region import ledger_of

    found = (
        [conn_id] if conn_id else [one.for_readers.warehouse for one in pipelines_in(folder, [])]
    )
    for name in dict.fromkeys(found):
        with ledger_of(connection(name)) as ledger:
            looks = Looks(ledger.engine)
            if looks.ledger_is_there():
                yield looks
