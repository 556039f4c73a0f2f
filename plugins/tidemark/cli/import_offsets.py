"""`tidemark import-offsets`: a new region begins where an exported checkpoint ends."""

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.order import DRY, Apply
from tidemark.cli.output import Format, Output, Verbose, print_json, print_line, print_table
from tidemark.cli.progress import spinning
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline


def import_offsets(
    region: RegionName,
    file: Annotated[Path, typer.Argument(help="What tidemark offsets -o json has printed.")],
    apply: Apply = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Give the group of a region that never opened the offsets of an exported checkpoint.

    A dry run unless --apply is given. Its pipeline file says start: committed, and its group is
    empty and without other commits. The offsets must be of this cluster and of these topics, of all
    their partitions, and within what Kafka still holds.

      tidemark offsets flights -o json | tee flights.json

      tidemark import-offsets flights_again flights.json --apply
    """
    from tidemark.operations.importing import import_offsets as give
    from tidemark.settings.exported import read_exported

    exported, pipeline = read_exported(file), find_pipeline(region, pipelines)
    with spinning("writing the group's offsets" if apply else "looking at group and topics"):
        report = give(pipeline, connections_of(pipeline), exported, apply=apply)
    if output is Output.json:
        print_json(report)
        return
    done = "has" if apply else "would have (dry run)"
    print_line(f"group {report.group} {done} the offsets of region {report.source}")
    rows = [(*place, offset, report.left[place]) for place, offset in report.offsets.items()]
    print_table(("topic", "partition", "offset", "to the end"), rows)
    if not apply:
        print_line(DRY)
