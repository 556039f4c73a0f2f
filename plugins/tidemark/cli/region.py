"""`tidemark region`: list regions and what was done to them, and drop them."""

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.drop import drop_region
from tidemark.admin.errors import NotInLedger
from tidemark.cli.errors import Commands, tell_no_pipelines
from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    flowing,
    print_json,
    print_line,
    print_table,
    spinning,
)
from tidemark.cli.project import (
    DAGS,
    PipelinesDir,
    RegionName,
    chosen_pipelines,
    connection,
    connections_of,
    find_pipeline,
    pipelines_in,
)
from tidemark.ledger.queries import LedgerQueries
from tidemark.model.plain import amount, plain
from tidemark.runs.region import ledger_of

if TYPE_CHECKING:
    from tidemark.settings.connections import Connection


OfLedger = Annotated[
    str | None,
    typer.Option(
        "--connection", metavar="ID", help="The ledger's connection: no pipeline file is needed."
    ),
]


def drop(
    region: RegionName,
    apply: Apply = False,
    why: Why = "by hand",
    conn_id: OfLedger = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Remove all that the ledger has of a region; the target and Kafka's offsets stay.

    A dry run unless --apply is given. The region must be at rest. Checkpoints, dead letters and the
    record of its resets ARE REMOVED: no rewind is possible afterwards, and `verify` can prove
    nothing. The target keeps its rows, and the group its offsets in Kafka: a new region goes on
    from there with start: committed, so a close or a reset must have read them back. A region of
    the same name that is opened later begins above the epochs and seqs of this one, so that no
    zombie of it can write.

    A region without a pipeline file is dropped by its name and the connection of its ledger.

    Exits with 16 (REFUSED) when the region is not at rest or never opened, or nobody has read the
    offsets back since its newest run failed; 15 (SUPERSEDED) when a run began meanwhile.

      tidemark region drop flights
      tidemark region drop flights --apply --why "moved to another database"
      tidemark region drop old_flights --connection tidemark_warehouse --apply
    """
    name, warehouse = _ledger_of(region, conn_id, pipelines)
    with spinning("dropping the region" if apply else "looking at what would go"):
        order = order_of(why, apply=apply)
        report = drop_region(warehouse, name, order)
    if output is ResultFormat.json:
        print_json(report)
        return
    print_line(f"region {report.region}: {'dropped' if apply else 'drop, dry run'}")
    size = report.size
    print_line(f"  epoch {report.epoch}, head {report.head_seq}")
    print_line(
        f"  removed     {amount(size.partitions, 'partition')}, {amount(size.batches, 'batch')},"
        f" {amount(size.dead_letters, 'dead letter')}, and all runs and resets"
    )
    print_line(f"  stays       {report.target}, with all its rows")
    print_line(f"  stays       the offsets of group {report.group} in Kafka")
    if not apply:
        print_line(DRY)


def _ledger_of(region: str, conn_id: str | None, folder: Path) -> "tuple[str, Connection]":
    """The region's name and its ledger's connection: as it says, else by the pipeline file."""
    if conn_id:
        return region, connection(conn_id)
    pipeline = find_pipeline(region, folder)
    return pipeline.region, connections_of(pipeline)[pipeline.warehouse]


def list_(
    conn_id: OfLedger = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """List every region of the ledgers that the pipeline files lead to, or of one connection.

    Also those without a pipeline file: no other region can have their names, groups and targets.

      tidemark region list
      tidemark region list --connection tidemark_warehouse
    """
    faults: list[str] = []
    names = {pipeline.region for pipeline in pipelines_in(pipelines, faults)}
    with spinning("looking at the ledgers"):
        found = [one for queries in _every_ledger(conn_id, pipelines) for one in queries.regions()]
    tell_no_pipelines(faults)
    if output is ResultFormat.json:
        print_json([plain(one) | {"has_file": one.region in names} for one in found])
        return
    if not found:
        print_line("no region has opened in these ledgers: `tidemark run` opens one")
        return
    columns = ("region", "state", "epoch", "head", "last checkpoint", "dead letters", "group",
               "target", "file")  # fmt: skip
    rows = [(one.region, one.state, one.epoch, one.head_seq, one.last_checkpoint_at,
             one.dead_letters, one.group, one.target, "yes" if one.region in names else "none")
            for one in found]  # fmt: skip
    print_table(columns, rows)


def actions(
    region: Annotated[
        str | None, typer.Argument(metavar="[REGION]", help="Only those of this region.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10**9, help="How many, from the newest.")] = 20,
    conn_id: OfLedger = None,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """List what people did to regions besides resets: purges, drops, overrides; newest first.

    Also of regions that are gone; a name that no ledger and no file knows is an error. Each with
    who, when, why, and what became of it. Who is as the machine or Airflow names the person; login
    is the role that Postgres knew.

      tidemark region actions
      tidemark region actions flights -o json
    """
    faults: list[str] = []
    known = {pipeline.region for pipeline in pipelines_in(pipelines, faults)}
    found = []
    with spinning("looking at the ledgers"):
        for queries in _every_ledger(conn_id, pipelines):
            found += queries.actions(region, limit)
            known |= {one.region for one in queries.regions()}
    tell_no_pipelines(faults)
    if region and not found and region not in known:
        raise NotInLedger(region=region, known=tuple(sorted(known)))
    if output is ResultFormat.json:
        print_json([plain(one) for one in found])
        return
    if not found:
        of = "" if region is None else f" to region {region}"
        print_line(f"nothing was done{of}; `tidemark region list` names the regions")
        return
    rows = [(one.at, one.region, one.kind, one.requested_by, one.database_user, one.why,
             ", ".join(f"{name} {value}" for name, value in one.details.items()))
            for one in found]  # fmt: skip
    print_table(("at", "region", "what", "who", "login", "why", "details"), rows)


def _every_ledger(conn_id: str | None, folder: Path) -> Iterator[LedgerQueries]:
    """Each ledger once: that of the connection, or those that the pipeline files lead to."""
    found = (
        [conn_id]
        if conn_id
        else [one.for_readers.warehouse for one in chosen_pipelines(None, folder, [])]
    )
    for name in dict.fromkeys(found):
        with ledger_of(connection(name)) as ledger:
            queries = ledger.queries
            if queries.ledger_is_there():
                yield queries


ANEW = (
    "start the region anew at its own offsets: `tidemark offsets`, `tidemark region drop`,"
    " `tidemark import-offsets` (docs/administration.md, Another name or group)"
)


class Regions(Commands):
    """The commands of regions, and those that are gone."""

    gone = MappingProxyType({"rename": ANEW, "move": ANEW})


region = typer.Typer(
    cls=Regions,
    no_args_is_help=True,
    help="Regions: list and drop them, and what was done to them.",
)
for verb in (list_, actions, drop):
    region.command(verb.__name__.rstrip("_"), help=flowing(verb.__doc__))(verb)
