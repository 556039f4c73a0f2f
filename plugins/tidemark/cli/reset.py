"""`tidemark reset`: restore the merged checkpoint of a region's head, or say what that would do."""

import getpass
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.output import Format, Output, Verbose, plain, print_json, print_line
from tidemark.cli.progress import spinning
from tidemark.cli.project import (
    DAGS,
    PipelinesDir,
    RegionName,
    connection,
    connections_of,
    find_pipeline,
)

if TYPE_CHECKING:
    from tidemark.pipeline import Pipeline
    from tidemark.reset import ResetReport


def reset(
    region: RegionName,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it. Without, nothing changes.")
    ] = False,
    reason: Annotated[
        str, typer.Option(help="Why, for the ledger's record of resets.")
    ] = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Fence everyone, discard what is not published, set Kafka's offsets equal to the ledger's.

    A dry run unless --apply is given: it says exactly what would change and writes nothing. Rows
    that are published stay; a reset never removes one. It is unconditional: whoever works in the
    region is fenced and ends with FENCED (10). Safe to repeat, and beside another reset.

    Exits with 0 when the reset (or the dry run) is complete, 16 (REFUSED) for a region that never
    opened, 10 (FENCED) when another open or reset took over before Kafka was set.

      tidemark reset flights
      tidemark reset flights --apply --reason "driver hung"
    """
    from tidemark.reset import reset_run

    pipeline = find_pipeline(region, pipelines)
    connections = connections_of(pipeline)
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    with spinning("resetting" if apply else "looking at what a reset would change"):
        fences = _members(pipeline)
        report = reset_run(pipeline, connections, run_id=None, apply=apply, who=who, why=reason)
    if output is Output.json:
        print_json(plain(report) | {"fences": fences})
    else:
        for line in _lines(report, fences):
            print_line(line)


def _members(pipeline: "Pipeline") -> list[str]:
    """Who is in the group now."""
    from tidemark.connections import kafka_config
    from tidemark.kafka.group import Group

    kafka = kafka_config(connection(pipeline.kafka.connection))
    return [str(holder) for holder in Group(kafka, pipeline.group).holders()]


def _lines(report: "ResetReport", fences: list[str]) -> Iterator[str]:
    done = report.applied
    yield f"region {report.region}: {'reset' if done else 'a reset would change this'}"
    was = report.epoch - done
    yield f"  epoch       {was} -> {was + 1}; every process of epoch {was} {_tense(done)} fenced"
    for member in fences:
        yield f"  fenced      {member}"
    if report.discards_seq is None:
        yield "  discarded   nothing: no batch is unpublished"
    else:
        yield f"  discarded   batch {report.discards_seq}, which is not published, and its staging"
    yield f"  head        batch {report.head_seq} stays; no row of the target is removed"
    for difference in report.drift or ("nothing: the group's offsets equal the ledger's",):
        yield f"  Kafka       {difference}"
    if not done:
        yield "nothing was written; do it with --apply"


def _tense(done: bool) -> str:
    return "is" if done else "would be"
