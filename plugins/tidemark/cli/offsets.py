"""`tidemark offsets`: a region's merged checkpoint, for other tools."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.faults import NoOffsetsAt, OffsetsNotReadable, OptionsClash
from tidemark.cli.output import Format, Output, Verbose, print_json, print_table
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.errors import Refused
from tidemark.model.bounds import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemark.model.offsets import Offsets, TopicPartition
    from tidemark.model.state import Partition, RegionState
    from tidemark.operations.region import Region
    from tidemark.settings.exported import ExportedOffsets


def offsets(
    region: RegionName,
    at: Annotated[
        int | None,
        typer.Option(min=0, max=MOST, metavar="SEQ", help="As of a checkpoint; of the head else."),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="As topic,partition,offset lines: kafka-consumer-groups.sh."),
    ] = False,
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """Export a region's merged checkpoint: the next offset of each partition, by the ledger.

    With -o json beside the ids of cluster and topics, which tell whether the offsets mean the same
    records elsewhere. With --csv for another consumer group: kafka-consumer-groups.sh takes the
    lines by --reset-offsets --from-file, and a new region goes on from there with start: committed.

      tidemark offsets flights -o json
      tidemark offsets flights --at 17 --csv | tee offsets.csv
    """
    from tidemark.operations.region import region_of

    if csv and output is Output.json:
        raise OptionsClash(options=("--csv", "-o json"))
    pipeline = find_pipeline(region, pipelines)
    with region_of(pipeline, connections_of(pipeline)) as the_region:
        state, found = the_region.state(), _offsets(the_region, at)
        known = the_region.known_partitions()
    rows = [(tp.topic, tp.partition, offset) for tp, offset in sorted(found.items())]
    if csv:
        for row in rows:
            typer.echo(",".join(map(str, row)))
    elif output is Output.json:
        seq = state.head_seq if at is None else at
        print_json(_exported(state, seq, found, known).model_dump())
    else:
        print_table(("topic", "partition", "offset"), rows)


def _exported(
    state: "RegionState", seq: int, found: "Offsets", known: "Mapping[TopicPartition, Partition]"
) -> "ExportedOffsets":
    from tidemark.settings.exported import ExportedOffset, ExportedOffsets

    return ExportedOffsets(
        region=state.region,
        group=state.group_id,
        cluster_id=state.cluster_id,
        epoch=state.epoch,
        seq=seq,
        offsets=tuple(
            ExportedOffset(
                topic=at.topic,
                topic_id=known[at].topic_id if at in known else None,
                partition=at.partition,
                offset=to,
            )
            for at, to in sorted(found.items())
        ),
    )


def _offsets(region: "Region", at: int | None) -> "Offsets":
    """The merged checkpoint of the head, or the one that a rewind to that seq restores.

    Raises:
        Refused: there is no such checkpoint, or a rewind there is refused: not all that came after
            it can be read again.
    """
    from tidemark.ledger.looks import Looks
    from tidemark.operations.region import facts_left

    if at is None:
        return region.ledger.merged_checkpoint(region.name).offsets
    if at and not Looks(region.ledger.engine).is_restorable(region.name, at):
        raise NoOffsetsAt(region=region.name, seq=at)
    facts = facts_left(region.broker, {place.topic for place in region.known_partitions()})
    plan = region.ledger.rewind_plan(region.name, at)
    try:
        plan.check(region.state(), facts)
    except Refused as error:
        raise OffsetsNotReadable(region=region.name, seq=at, cause=str(error)) from error
    return plan.offsets
