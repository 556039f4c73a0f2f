"""`tidemark checkpoints`, `offsets` and `import-offsets`: what is published, for other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.admin.importing import import_from_group
from tidemark.admin.importing import import_offsets as give
from tidemark.cli.faults import NoOffsetsAt, OffsetsNotReadable, OptionsClash
from tidemark.cli.order import DRY, Apply
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
from tidemark.errors import Refused
from tidemark.model.batch import Checkpoint
from tidemark.model.plain import plain
from tidemark.model.plan import MAX_BIGINT
from tidemark.runs.region import facts_left, region_of
from tidemark.settings.exported import ExportedOffset, ExportedOffsets, read_exported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemark.model.offsets import TopicPartition
    from tidemark.model.state import Partition, RegionState
    from tidemark.runs.region import Region


def offsets(
    region: RegionName,
    at: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_BIGINT, metavar="SEQ", help="Of this checkpoint; by default of the head."
        ),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="As topic,partition,offset lines: kafka-consumer-groups.sh."),
    ] = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Export a region's merged checkpoint: the next offset of each partition, by the ledger.

    -o json adds the ids of cluster and topics, which show whether the offsets mean the same records
    elsewhere. --csv is for another consumer group: kafka-consumer-groups.sh takes the lines by
    --reset-offsets --from-file, and a new region with start: committed continues from there.

      tidemark offsets flights -o json
      tidemark offsets flights --at 17 --csv | tee offsets.csv
    """
    if csv and output is ResultFormat.json:
        raise OptionsClash(options=("--csv", "-o json"))
    pipeline = find_pipeline(region, pipelines)
    with region_of(pipeline, connections_of(pipeline)) as the_region:
        state, found = the_region.state(), _checkpoint(the_region, at)
        known = the_region.known_partitions()
    rows = [(tp.topic, tp.partition, offset) for tp, offset in sorted(found.offsets.items())]
    if csv:
        for row in rows:
            typer.echo(",".join(map(str, row)))
    elif output is ResultFormat.json:
        print_json(_exported(state, found, known).model_dump())
    else:
        print_table(("topic", "partition", "offset"), rows)


def _exported(
    state: "RegionState", found: Checkpoint, known: "Mapping[TopicPartition, Partition]"
) -> ExportedOffsets:
    return ExportedOffsets(
        region=state.region,
        group=state.group_id,
        cluster_id=state.cluster_id,
        epoch=found.epoch,
        seq=found.seq,
        offsets=tuple(
            ExportedOffset(
                topic=at.topic,
                topic_id=known[at].topic_id if at in known else None,
                partition=at.partition,
                offset=to,
            )
            for at, to in sorted(found.offsets.items())
        ),
    )


def _checkpoint(region: "Region", at: int | None) -> Checkpoint:
    """The merged checkpoint of the head, or the one that a rewind to that seq restores.

    Epoch, seq and offsets of the head are of one snapshot: a run may publish meanwhile.
    """
    if at is None:
        return region.ledger.merged_checkpoint(region.name)
    if at and not region.ledger.queries.is_restorable(region.name, at):
        raise NoOffsetsAt(region=region.name, seq=at)
    facts = facts_left(region.broker, {place.topic for place in region.known_partitions()})
    plan, state = region.ledger.rewind_plan(region.name, at), region.state()
    try:
        plan.refuse_unreadable(state, facts)
    except Refused as error:
        raise OffsetsNotReadable(region=region.name, seq=at, cause=str(error)) from error
    return Checkpoint(region.name, state.epoch, at, plan.offsets)


def import_offsets(
    region: RegionName,
    file: Annotated[
        Path | None, typer.Argument(help="The output of tidemark offsets -o json.")
    ] = None,
    from_group: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="The offsets of this group, whose tool has stopped."),
    ] = None,
    apply: Apply = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """Give the group of a region that never opened the offsets of a checkpoint, or of a group.

    They come from a file, or by --from-group from the consumer group of another tool, which must
    have stopped. It is a dry run without --apply.

    The region's pipeline file must say start: committed, and its group must be empty and without
    other commits. The offsets must be of this cluster and of these topics, of all their partitions,
    and of records that Kafka still holds. A partition without records needs none in another group.

      tidemark offsets flights -o json | tee flights.json

      tidemark import-offsets flights_again flights.json --apply
      tidemark import-offsets orders --from-group connect-orders --apply
    """
    if (file is None) == (from_group is None):
        raise OptionsClash(options=("FILE", "--from-group"))
    exported, pipeline = file and read_exported(file), find_pipeline(region, pipelines)
    with spinning("writing the group's offsets" if apply else "looking at group and topics"):
        known = connections_of(pipeline)
        if exported:
            report = give(pipeline, known, exported, apply=apply)
        else:
            report = import_from_group(pipeline, known, from_group or "", apply=apply)
    if output is ResultFormat.json:
        print_json(report)
        return
    done = "has" if apply else "would have (dry run)"
    print_line(f"group {report.group} {done} the offsets of {report.source}")
    rows = [(*place, offset, report.left[place]) for place, offset in report.offsets.items()]
    print_table(("topic", "partition", "offset", "to the end"), rows)
    if not apply:
        print_line(DRY)


def checkpoints(
    region: RegionName,
    last: Annotated[int, typer.Option(min=1, max=10**9, help="How many, from the newest.")] = 20,
    pipelines: PipelinesDir = DAGS,
    output: Format = ResultFormat.table,
    verbose: Verbose = False,
) -> None:
    """List a region's checkpoints, newest first.

    A checkpoint is a published batch. With -o json each has the merged checkpoint after it:
    partition -> next offset over the whole group.

      tidemark checkpoints flights --last 5
      tidemark checkpoints flights --last 1 -o json
    """
    pipeline = find_pipeline(region, pipelines).for_readers
    with region_of(pipeline, connections_of(pipeline)) as the_region:
        queries = the_region.ledger.queries
        found = queries.checkpoints(pipeline.region, last)
        if output is ResultFormat.json:
            ledger, name = the_region.ledger, pipeline.region
            offsets = [ledger.merged_checkpoint(name, one.seq).offsets for one in found]
            both = zip(found, offsets, strict=True)
            print_json([plain(one) | {"offsets": plain(at)} for one, at in both])
            return
    if not found:
        print_line(f"region {pipeline.region} has no checkpoint yet")
        return
    columns = ("seq", "epoch", "published", "seconds", "records", "rows", "dead letters", "spans")
    rows = [(one.seq, one.epoch, one.published_at,
             f"{(one.published_at - one.planned_at).total_seconds():.1f}",
             one.records, one.rows, one.dead_letters, one.spans)
            for one in found]  # fmt: skip
    print_table(columns, rows)
