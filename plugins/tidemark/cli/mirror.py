"""`tidemark mirror`: Kafka's group offsets repaired from the ledger, or compared with it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.mirror import mirror_region
from tidemark.cli.output import Format, ResultFormat, Verbose, print_json, print_line, spinning
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.model.plain import amount

if TYPE_CHECKING:
    from tidemark.admin.mirror import MirrorReport


def mirror(
    region: RegionName,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if an offset differs.")
    ] = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Set Kafka's group offsets equal to the ledger's merged checkpoint, and read them back.

    Use it if somebody has moved the group's offsets and dashboards show a wrong lag. No run reads
    these offsets, so no record was lost or doubled. The command takes no epoch, discards nothing,
    and may be repeated. Every open, close and reset does the same. It also sends the unsent rows of
    an output topic.

    Exits with 0 when Kafka equals the ledger, 1 (MIRROR_FAILED) when it reads back other offsets,
    10 (FENCED) when another open or reset took over meanwhile, 16 (REFUSED) for a region that never
    opened.

      tidemark mirror flights
      tidemark mirror flights --check
    """
    pipeline = find_pipeline(region, pipelines)
    with spinning("comparing" if check else "mirroring"):
        report = mirror_region(pipeline, connections_of(pipeline), check=check)
    if output is ResultFormat.json:
        print_json(report)
    else:
        for line in _lines(report):
            print_line(line)
    if report.after:
        raise typer.Exit(1)


def _lines(report: "MirrorReport") -> Iterator[str]:
    yield f"region {report.region}, epoch {report.epoch}, checkpoint {report.head_seq}"
    for difference in report.before:
        yield f"  {'was' if report.mirrored else 'is'}  {difference}"
    partitions = amount(len(report.offsets), "partition")
    if report.after:
        yield f"{len(report.after)} of {partitions} differ; tidemark mirror repairs them"
    elif report.mirrored:
        yield f"Kafka was written and reads back equal in {partitions}"
    else:
        yield f"Kafka equals the ledger in {partitions}"
