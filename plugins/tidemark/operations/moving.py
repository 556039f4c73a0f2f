"""A region's move to the group and the tables that its pipeline file now names, from outside."""

from dataclasses import dataclass

from tidemark.ledger import naming
from tidemark.ledger.actions import Order
from tidemark.ledger.naming import Place
from tidemark.model.offsets import Offsets
from tidemark.model.state import NEVER_MIRRORED, Mirrored
from tidemark.operations.errors import (
    MoveFromSent,
    MoveIntoCommits,
    MoveIntoUsedGroup,
    NothingToMove,
)
from tidemark.operations.region import Connections, Region, mirror_seen, region_of, topics_gone
from tidemark.protocol.mirror import mirror
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class MoveReport:
    """Where the region was and where it is; in a dry run (applied false) where it would be."""

    region: str
    applied: bool
    epoch: int
    group_before: str
    group: str
    target_before: str
    target: str


def move_region(pipeline: Pipeline, connections: Connections, order: Order | None) -> MoveReport:
    """The region has the group and the tables of its file, in the ledger and in Kafka.

    If it crashes: moved or not; the next open writes the group's offsets.

    Raises:
        Superseded, Refused: see `moving.move`; or the group is in use, or nothing is to be moved.
    """
    with region_of(pipeline, connections) as region:
        state, offsets = region.state(), region.ledger.merged_checkpoint(region.name).offsets
        tables = {name: known.table for name, known in state.targets.items()}
        seen = NEVER_MIRRORED
        if state.group_id != pipeline.group:
            seen = _seen_in_unused_group(region, offsets)
        elif tables == pipeline.tables:
            raise NothingToMove(
                region=region.name, group=state.group_id, tables=tuple(tables.values())
            )
        to = Place(pipeline.group, pipeline.tables)
        epoch = naming.move(region.ledger.engine, state, to, seen, order)
        if order:
            gone = topics_gone(region, offsets)
            mirror(region.ledger, region.group, region.name, epoch, gone=gone)
        return MoveReport(
            region.name,
            order is not None,
            epoch,
            state.group_id,
            pipeline.group,
            state.tables,
            pipeline.into,
        )


def _seen_in_unused_group(region: Region, offsets: Offsets) -> Mirrored:
    """What a mirror has left in the group, if the ledger was restored since it was moved there.

    Raises:
        Refused: somebody is in the group, or it has the commits of somebody else.
    """
    group = region.group
    if region.pipeline.sending:
        raise MoveFromSent(region=region.name, group=group.group_id)
    if holders := group.holders():
        raise MoveIntoUsedGroup(
            region=region.name, group=group.group_id, holders=tuple(map(str, holders))
        )
    seen = mirror_seen(region, offsets).mirrored
    if group.committed(offsets) and seen == NEVER_MIRRORED:
        raise MoveIntoCommits(region=region.name, group=group.group_id)
    return seen
