"""`tidemark region move`: a region follows its pipeline file to another group or table name."""

from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import Format, Output, Verbose, print_json, print_line
from tidemark.cli.progress import spinning
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline


def move(
    region: RegionName,
    apply: Apply = False,
    why: Why = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Carry a region over to the consumer group, or the new names of its tables, in its file.

    A dry run unless --apply is given. Write kafka.group or target.table into the pipeline file
    first. Checkpoints, dead letters and rows stay; whoever still works is fenced by a new epoch,
    and the group gets the ledger's offsets. A group must be empty and without commits. A table must
    be the one that the region has published to, under another name or in another schema.

      tidemark region move flights
      tidemark region move flights --apply --why "groups have a prefix now"
    """
    from tidemark.operations.moving import move_region

    pipeline = find_pipeline(region, pipelines)
    with spinning("moving the region" if apply else "looking at where it would go"):
        order = order_of(why, apply=apply)
        report = move_region(pipeline, connections_of(pipeline), order)
    if output is Output.json:
        print_json(report)
        return
    print_line(f"region {report.region}: {'moved' if apply else 'move, dry run'}")
    print_line(f"  epoch       {report.epoch}")
    print_line(f"  group       {report.group_before} -> {report.group}")
    print_line(f"  target      {report.target_before} -> {report.target}")
    if not apply:
        print_line(DRY)
