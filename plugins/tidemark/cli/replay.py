"""`tidemark replay`: dead letters become rows, or what a replay would do."""

from collections.abc import Iterator
from typing import Annotated

import typer

from tidemark.admin.replay import replay_dead_letters
from tidemark.admin.replay_report import ReplayReport, replay_lines
from tidemark.cli.dead_letter_filter import (
    Partition,
    Reasons,
    Since,
    Until,
    dead_letter_filter,
    refuse_unknown_reasons,
)
from tidemark.cli.faults import BatchesNotReplayed, NothingToReplay
from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import Format, ResultFormat, Verbose, print_json, print_line, spinning
from tidemark.cli.project import (
    DAGS,
    PipelinesDir,
    RegionName,
    connections_of,
    find_pipeline,
    prepare_spark,
    started_spark,
)


def replay(
    region: RegionName,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Replay dead letters; must be given.")
    ] = False,
    batch: Annotated[int | None, typer.Option(hidden=True)] = None,  # refused, for one version
    reason: Reasons = None,
    since: Since = None,
    until: Until = None,
    partition: Partition = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=10**9, help="At most so many; batch.max_records by default."),
    ] = None,
    apply: Apply = False,
    why: Why = "by hand",
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Make rows of dead letters that can be decoded now, each once.

    A dry run unless --apply is given: it decodes them as the pipeline file says now, and tells how
    many would become rows and why the others would not. The transform is not given them. It tells
    too if --apply would be refused: other settings than the checkpoint's, a region at work, a table
    that does not fit.

    With --apply it takes an epoch of its own, as a reset does, and reads the records as the ledger
    keeps them, through decode, transform and Spark, into one batch. Its commit brings the rows and
    marks each dead letter as replayed. Those that fail again stay, with their new reason. A rewind
    to a checkpoint before it takes rows and marks back.

    The region must be at rest. Refused for a target that is upserted, where an old record could
    replace a newer row; and where the pipeline file has other settings than the checkpoint: start a
    run with --accept-changes first. Records whose rows the target refused are in Kafka alone.

    Exits with 16 (REFUSED) for these, 11 (TARGET_REFUSED) when the target refuses a row, 10
    (FENCED) or 15 (SUPERSEDED) when another open or reset took over: nothing was published then.

      tidemark replay flights --dead-letters
      tidemark replay flights --dead-letters --reason OUT_OF_RANGE --since 2026-01-31 --apply
    """
    if not dead_letters and batch is None:
        raise NothingToReplay
    meant = dead_letter_filter(reason, since, until, partition)
    pipeline = find_pipeline(region, pipelines)
    if batch is not None:
        raise BatchesNotReplayed(region=pipeline.region, seq=batch)
    refuse_unknown_reasons(pipeline, meant)
    prepare_spark(pipeline)
    order, connections = order_of(why, apply=apply), connections_of(pipeline)
    with spinning("replaying" if apply else "looking at what a replay would read"):
        most = limit or pipeline.bounds().max_records
        report = replay_dead_letters(pipeline, connections, meant, most, order, started_spark)
    if output is ResultFormat.json:
        print_json(report)
        return
    for line in _lines(report):
        print_line(line)


def _lines(report: ReplayReport) -> Iterator[str]:
    undone = ", nothing to replay" if report.is_empty else ", dry run"
    done = "" if report.applied else undone
    yield f"region {report.region}: replay of dead letters{done}"
    yield from replay_lines(report)
    if report.refused:
        yield "nothing was written, and --apply would be refused"
    elif not report.applied and not report.is_empty:
        yield DRY
