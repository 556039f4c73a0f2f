"""`tidemark reset`: restore a merged checkpoint, or say what that would do."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.reset import reset_lines, reset_region
from tidemark.cli.order import DRY, Apply, Why, order_of
from tidemark.cli.output import (
    Format,
    ResultFormat,
    Verbose,
    print_json,
    print_line,
    print_table,
    spinning,
)
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.model.overrides import ACCEPT_CHANGES, ACCEPT_DATA_LOSS, ACCEPT_RESEND
from tidemark.model.plain import age, plain
from tidemark.protocol.reset import destination
from tidemark.runs.region import region_of
from tidemark.settings.errors import NameChanged
from tidemark.views.status import brief, in_ledger, members_of

if TYPE_CHECKING:
    from tidemark.admin.reset import ResetReport
    from tidemark.settings.endpoints import Connections
    from tidemark.settings.pipeline import Pipeline
    from tidemark.views.status import MemberHealth


def print_reset(report: "ResetReport", members: "list[MemberHealth]", into: str) -> None:
    """Print what a reset changed, or would change; for a rewind also its partitions."""
    print_line(f"region {report.region}: {report.kind}{'' if report.applied else ', dry run'}")
    for line in (*reset_lines(report, into), *map(_fate, members)):
        print_line(line)
    _print_places(report)
    if not report.applied:
        print_line(DRY)


def _fate(one: "MemberHealth") -> str:
    held = brief(one.partitions) or "nothing"
    if one.kind == "foreign":
        return f"  not fenced  {one.label}, holds {held}; it is FOREIGN, stop it"
    return f"  fenced      {one.label}, holds {held}"


def _print_places(report: "ResetReport") -> None:
    """Each partition, from where to where, and how far from what Kafka still holds."""
    back = report.removed
    if back is None:
        return
    print_line("")
    print_table(
        ("partition", "from", "to", "read again", "margin", "due in"),
        [
            (
                str(at),
                back.offsets[at],
                report.offsets[at],
                again,
                back.margins.get(at),
                None if (left := back.seconds.get(at)) is None else age(left),
            )
            for at, again in report.read_again.items()
        ],
    )
    print_line("")


def reset(
    region: RegionName,
    to: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="last, initial, the seq of a checkpoint, or a time: the newest checkpoint that"
            " holds no record with that Kafka timestamp or a later one (UTC without a zone).",
        ),
    ] = "last",
    apply: Apply = False,
    why: Why = "by hand",
    reason: Annotated[str | None, typer.Option(hidden=True)] = None,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="For a rewind: remove the rows that are there, even if another number was"
            " published.",
        ),
    ] = False,
    accept_data_loss: Annotated[
        bool,
        typer.Option(
            "--accept-data-loss",
            help="For a rewind: also remove rows whose records Kafka no longer has, or no run"
            " reads any more.",
        ),
    ] = False,
    accept_resend: Annotated[
        bool,
        typer.Option(
            "--accept-resend",
            help="For a rewind with an output topic: sent records stay, and are sent again.",
        ),
    ] = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Fence every process, discard unpublished batches, set Kafka's offsets equal to the ledger's.

    It is a dry run without --apply: it shows every change and writes nothing. It is unconditional:
    a process that works in the region ends with FENCED (10). It may be repeated, and run beside
    another reset. It clears the count of consecutive resets.

    Reset to the last checkpoint (the default) when a driver hangs, or max_consecutive_resets stops
    the region: published rows stay.

    A reset to an older place is a rewind, for rows that must be made again, as after a wrong
    transform: rows and dead letters published after that checkpoint ARE REMOVED, and the next run
    reads their records again. --to SEQ goes to a checkpoint of `tidemark checkpoints`, --to a time
    to the newest checkpoint that holds no record of that time or later, --to initial to before the
    first. All batches after the place go together.

    A rewind is refused before it fences any process, if there is no such checkpoint, if Kafka no
    longer holds the records to read again, if the target does not hold as many rows as the ledger
    published, or if the role may not delete. The margin is the number of offsets between Kafka's
    log start and the place, and "due in" is the time until retention may delete the oldest of these
    records: raise retention.ms if that is soon.

    If compaction may have taken records, the rewind first counts them, which reads them once. If
    some are gone, or of a topic that the pipeline no longer reads, --accept-data-loss loses their
    rows. If somebody deleted or inserted rows of the target, --accept-changes removes the present
    rows. If rows were sent to an output topic, --accept-resend leaves them there and sends them
    again.

    Exits with 0 when the reset (or the dry run) is complete, 16 (REFUSED) for a refused rewind
    and for a region that never opened, 10 (FENCED) or 15 (SUPERSEDED) when another open or reset
    took over: nothing was removed then.

      tidemark reset flights
      tidemark reset flights --apply --why "driver hung"
      tidemark reset flights --to 41
      tidemark reset flights --to 2026-01-31T12:00:00Z --apply --why "wrong currency"
    """
    if reason is not None:
        raise NameChanged(given="--reason", now="--why")
    place = destination(to)
    pipeline = find_pipeline(region, pipelines)
    connections = connections_of(pipeline)
    given = {
        ACCEPT_CHANGES: accept_changes,
        ACCEPT_DATA_LOSS: accept_data_loss,
        ACCEPT_RESEND: accept_resend,
    }
    with spinning("resetting" if apply else "looking at what a reset would change") as tell:
        members = _members(pipeline, connections)
        report = reset_region(
            pipeline,
            connections,
            order_of(why, apply=apply),
            to=place,
            overrides=[name for name, is_given in given.items() if is_given],
            tell=tell,
        )
    if output is ResultFormat.json:
        fences = [one.label for one in members if one.kind != "foreign"]
        foreign = [one.label for one in members if one.kind == "foreign"]
        print_json(plain(report) | {"fences": fences, "foreign": foreign})
        return
    print_reset(report, members, pipeline.into)


def _members(pipeline: "Pipeline", connections: "Connections") -> "list[MemberHealth]":
    """Who is in the group now."""
    with region_of(pipeline, connections) as region:
        group, at = region.group.describe(), in_ledger(region)
        found = members_of(group, at.members, region.name, pipeline.group, is_open=at.is_open)
        return [one for one in found if one.in_group]
