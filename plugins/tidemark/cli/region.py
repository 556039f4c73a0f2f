"""`tidemark region`: which regions there are, the end of one, another name for one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.output import Format, Output, Verbose, print_json, print_line, print_table
from tidemark.cli.progress import spinning
from tidemark.cli.project import (
    DAGS,
    PipelinesDir,
    RegionName,
    connections_of,
    find_pipeline,
    pipelines_in,
)
from tidemark.cli.who import whoami
from tidemark.model.plain import plain

if TYPE_CHECKING:
    from tidemark.ledger.looks import KnownRegion
    from tidemark.settings.pipeline import Pipeline

Apply = Annotated[bool, typer.Option("--apply", help="Do it. Without --apply nothing changes.")]
Why = Annotated[str, typer.Option(help="Why, for the ledger's record of actions.")]

DRY = "nothing was written; to do it, add --apply"


def list_(
    pipelines: PipelinesDir = DAGS, output: Format = Output.table, verbose: Verbose = False
) -> None:
    """List every region of the ledgers that the pipeline files lead to.

    Also those without a file: their names, groups and targets are taken.

      tidemark region list
    """
    with spinning("looking at the ledgers"):
        found = list(_known(pipelines))
    if output is Output.json:
        print_json([plain(one) | {"has_file": has_file} for one, has_file in found])
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
                "yes" if has_file else "none",
            )
            for one, has_file in found
        ],
    )


def drop(
    region: RegionName,
    apply: Apply = False,
    why: Why = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Remove all that the ledger has of a region; the target and Kafka's offsets stay.

    A dry run unless --apply is given. The region must be at rest. Checkpoints, dead letters and the
    record of its resets ARE REMOVED: no rewind is possible afterwards, and `verify` can prove
    nothing. The target keeps its rows, and the group its offsets in Kafka: a new region goes on
    from there with start: committed. A region of the same name that is opened later begins above
    the epochs and seqs of this one, so that no zombie of it can write.

    Exits with 16 (REFUSED) when the region is not at rest or never opened, 15 (SUPERSEDED) when a
    run began meanwhile.

      tidemark region drop flights
      tidemark region drop flights --apply --why "moved to another database"
    """
    from tidemark.ledger.actions import Order
    from tidemark.operations.naming import drop_region

    pipeline = find_pipeline(region, pipelines)
    with spinning("dropping the region" if apply else "looking at what would go"):
        order = Order(whoami(), why) if apply else None
        report = drop_region(pipeline, connections_of(pipeline), order)
    if output is Output.json:
        print_json(report)
        return
    print_line(f"region {report.region}: {'dropped' if apply else 'drop, dry run'}")
    size = report.size
    print_line(f"  epoch {report.epoch}, head {report.head_seq}")
    print_line(
        f"  removed     {size.partitions} partitions, {size.batches} batches,"
        f" {size.dead_letters} dead letters, and all runs and resets"
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
    from tidemark.ledger.actions import Order
    from tidemark.operations.naming import rename_region

    pipeline = find_pipeline(region, pipelines)
    with spinning("renaming the region"):
        order = Order(whoami(), why) if apply else None
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


def _known(folder: "PipelinesDir") -> "Iterator[tuple[KnownRegion, bool]]":
    """Each region with whether a file of the folder names it; a ledger is asked once."""
    from tidemark.ledger.looks import Looks
    from tidemark.operations.region import region_of

    files = list(pipelines_in(folder, []))
    names = {pipeline.region for pipeline in files}
    by_connection: dict[str, Pipeline] = {one.warehouse: one for one in files}
    for pipeline in by_connection.values():
        with region_of(pipeline, connections_of(pipeline)) as region:
            looks = Looks(region.ledger.engine)
            found = looks.regions() if looks.ledger_is_there() else []
        yield from ((one, one.region in names) for one in found)
