"""`tidemark checkpoints`: what a region has published."""

from typing import Annotated

import typer

from tidemark.cli.output import Format, Output, Verbose, print_json, print_line, print_table
from tidemark.cli.project import DAGS, PipelinesDir, RegionName, connections_of, find_pipeline
from tidemark.model.plain import plain


def checkpoints(
    region: RegionName,
    last: Annotated[int, typer.Option(min=1, max=10**9, help="How many, from the newest.")] = 20,
    pipelines: PipelinesDir = DAGS,
    output: Format = Output.table,
    verbose: Verbose = False,
) -> None:
    """List a region's checkpoints, newest first.

    A checkpoint is a published batch. With -o json each has the merged checkpoint after it:
    partition -> next offset over the whole group.

      tidemark checkpoints flights --last 5
      tidemark checkpoints flights --last 1 -o json
    """
    from tidemark.ledger.looks import Looks
    from tidemark.operations.region import region_of

    pipeline = find_pipeline(region, pipelines).for_readers
    with region_of(pipeline, connections_of(pipeline)) as the_region:
        looks = Looks(the_region.ledger.engine)
        found = looks.checkpoints(pipeline.region, last)
        if output is Output.json:
            ledger, name = the_region.ledger, pipeline.region
            offsets = [ledger.merged_checkpoint(name, one.seq).offsets for one in found]
            both = zip(found, offsets, strict=True)
            print_json([plain(one) | {"offsets": plain(at)} for one, at in both])
            return
    if not found:
        print_line(f"region {pipeline.region} has no checkpoint yet")
        return
    columns = ("seq", "epoch", "published", "seconds", "records", "rows", "dead letters", "spans")
    print_table(
        columns,
        [
            (
                one.seq,
                one.epoch,
                one.published_at,
                f"{(one.published_at - one.planned_at).total_seconds():.1f}",
                one.records,
                one.rows,
                one.dead_letters,
                one.spans,
            )
            for one in found
        ],
    )
