"""`tidemark region rename` and `drop`: another name for a region, and its end."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.faults import NameOfAnotherFile
from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import Format, Output, Verbose, print_json, print_line
from tidemark.cli.progress import spinning
from tidemark.cli.project import (
    DAGS,
    PipelinesDir,
    RegionName,
    connection,
    connections_of,
    find_pipeline,
    pipelines_in,
)
from tidemark.model.amount import amount

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
    output: Format = Output.table,
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
    from tidemark.operations.naming import drop_region

    name, warehouse = _ledgers(region, conn_id, pipelines)
    with spinning("dropping the region" if apply else "looking at what would go"):
        order = order_of(why, apply=apply)
        report = drop_region(warehouse, name, order)
    if output is Output.json:
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


def rename(
    region: RegionName,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    apply: Apply = False,
    why: Why = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Give a region another name; checkpoints, dead letters, target and group stay as they are.

    A dry run unless --apply is given. The region must be at rest; who still works under the old
    name is fenced by a new epoch. Afterwards write the new name into the pipeline file, and
    kafka.group with the group's name: a region keeps its group. Until then runs of the old file are
    refused.

      tidemark region rename flights departures
      tidemark region rename flights departures --apply
    """
    from tidemark.operations.naming import rename_region

    pipeline = find_pipeline(region, pipelines)
    _refuse_the_name_of_another_file(pipeline.group, new, pipelines)
    with spinning("renaming the region"):
        order = order_of(why, apply=apply)
        report = rename_region(pipeline, connections_of(pipeline), new, order)
    if output is Output.json:
        print_json(report)
        return
    done = "renamed" if apply else "rename, dry run"
    print_line(f"region {report.region}: {done} to {report.new}, epoch {report.epoch}")
    print_line(f"  pipeline file   region: {report.new}")
    print_line(f"                  kafka: {{group: {report.group}}}")
    if not apply:
        print_line(DRY)


def _ledgers(region: str, conn_id: str | None, folder: Path) -> "tuple[str, Connection]":
    """The region's name and its ledger's connection: as it says, else by the pipeline file."""
    if conn_id:
        return region, connection(conn_id)
    pipeline = find_pipeline(region, folder)
    return pipeline.region, connections_of(pipeline)[pipeline.warehouse]


def _refuse_the_name_of_another_file(group: str, new: str, folder: Path) -> None:
    """A file with the new name may stand there already, with this region's group."""
    for other in pipelines_in(folder, []):
        if other.region == new and other.group != group:
            raise NameOfAnotherFile(file=other.path, region=new, group=other.group)
