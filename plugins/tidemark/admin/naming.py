"""A region's end, its renaming, and its move to what its pipeline file now names, from outside."""

from dataclasses import dataclass

from sqlalchemy import Engine

from tidemark.admin.errors import (
    MoveFromSent,
    MoveIntoCommits,
    MoveIntoUsedGroup,
    NewNameMalformed,
    NewNameUnfit,
    NothingToMove,
    NotInLedger,
    StagingInUse,
)
from tidemark.ledger import naming
from tidemark.ledger.actions import Order
from tidemark.ledger.naming import RegionHome, Size
from tidemark.model.batch import Staging
from tidemark.model.offsets import Offsets
from tidemark.model.state import NEVER_MIRRORED, Mirrored
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.mirror import mirror
from tidemark.protocol.output import refuse_other_output
from tidemark.runs.region import Region, ledger_of, mirror_seen, region_of, topics_gone
from tidemark.runs.retire import retire
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import Connections
from tidemark.settings.pipeline import Pipeline, is_region
from tidemark.settings.target import refuse_unfit_targets
from tidemark.staging.tables import staged_batches


@dataclass(frozen=True, slots=True)
class DropReport:
    """What a drop removed, or in a dry run (applied false) would remove."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    size: Size
    target: str
    """Stays, with all its rows; several, if there are."""
    group: str
    """Keeps its offsets in Kafka."""


@dataclass(frozen=True, slots=True)
class RenameReport:
    """The region before and after; in a dry run (applied false) as it would be."""

    region: str
    new: str
    applied: bool
    epoch: int
    group: str


def drop_region(warehouse: Connection, name: str, order: Order | None) -> DropReport:
    """The ledger has nothing more of the region, or without an order the report says what goes.

    Raises:
        Superseded, Refused: see `naming.drop_region`; or the region never opened.
    """
    with ledger_of(warehouse) as ledger:
        state = ledger.region_state(name)
        if state is None:
            known = tuple(one.region for one in ledger.queries.regions())
            raise NotInLedger(region=name, known=known)
        if order:
            _retire_all(ledger.engine, name)
        size = naming.drop_region(ledger.engine, state, order)
        applied, group = order is not None, state.group_id
        return DropReport(
            region=name,
            applied=applied,
            epoch=state.epoch,
            head_seq=state.head_seq,
            size=size,
            target=state.into,
            group=group,
        )


def rename_region(
    pipeline: Pipeline, connections: Connections, new: str, order: Order | None
) -> RenameReport:
    """The region has the new name in the ledger and in Kafka's metadata, or it would have.

    If it crashes: renamed or not; the next open, or another rename, writes the metadata.

    Raises:
        InvalidSettings: it is not a region's name.
        Superseded, Refused: see `naming.rename`; or the region never opened.
    """
    if not is_region(new):
        raise NewNameMalformed(name=new)
    try:
        refuse_unfit_targets(pipeline.all_targets, new)
    except ValueError as error:
        raise NewNameUnfit(region=new, cause=str(error)) from error
    with region_of(pipeline, connections) as region:
        state, engine = region.state(), region.ledger.engine
        refuse_other_output(region.ledger.merged_checkpoint(region.name), region.group.output)
        if order:
            _retire_all(engine, region.name)
        epoch = naming.rename(engine, state, new, order)
        if order:
            gone = topics_gone(region, region.ledger.partitions(new))
            mirror(region.ledger, region.group, new, epoch, gone=gone)
        return RenameReport(
            region=region.name,
            new=new,
            applied=order is not None,
            epoch=epoch,
            group=state.group_id,
        )


def _retire_all(engine: Engine, region: str) -> None:
    """No staging table bears the region's name: under another one nobody would look for it.

    Raises:
        Refused: a process still uses one, or batches are planned.
    """
    retire(engine, region)
    with autocommit(engine) as cursor:
        left = staged_batches(cursor, Staging.of(region, 0).schema, region)
    if left:
        raise StagingInUse(region=region, batches=tuple(left))


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
        Superseded, Refused: see `naming.move`; or the group is in use, or nothing is to be moved.
    """
    with region_of(pipeline, connections) as region:
        state, checkpoint = region.state(), region.ledger.merged_checkpoint(region.name)
        offsets = checkpoint.offsets
        seen = NEVER_MIRRORED
        if state.group_id != pipeline.group:
            seen = _seen_in_unused_group(region, offsets)
        elif state.tables == pipeline.tables:
            raise NothingToMove(
                region=region.name, group=state.group_id, tables=tuple(state.tables.values())
            )
        refuse_other_output(checkpoint, region.group.output)
        to = RegionHome(pipeline.group, pipeline.tables)
        epoch = naming.move(region.ledger.engine, state, to, seen, order)
        if order:
            gone = topics_gone(region, offsets)
            mirror(region.ledger, region.group, region.name, epoch, gone=gone)
        return MoveReport(
            region=region.name,
            applied=order is not None,
            epoch=epoch,
            group_before=state.group_id,
            group=pipeline.group,
            target_before=state.into,
            target=pipeline.into,
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
