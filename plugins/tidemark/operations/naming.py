"""A region's end and its renaming, from outside."""

from dataclasses import dataclass

from tidemark.errors import InvalidSettings
from tidemark.ledger import naming
from tidemark.ledger.actions import Order
from tidemark.ledger.naming import Size, size_of
from tidemark.member.retire import retire
from tidemark.operations.region import Connections, region_of, topics_gone
from tidemark.protocol.mirror import mirror
from tidemark.settings.pipeline import Pipeline, is_region
from tidemark.settings.target import refuse_unfit


@dataclass(frozen=True, slots=True)
class DropReport:
    """What a drop removed, or in a dry run (applied false) would remove."""

    region: str
    applied: bool
    epoch: int
    head_seq: int
    size: Size
    target: str
    """Stays, with all its rows."""
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


def drop_region(pipeline: Pipeline, connections: Connections, order: Order | None) -> DropReport:
    """The ledger has nothing more of the region, or without an order the report says what goes.

    Raises:
        Superseded, Refused: see `naming.drop_region`; or the region never opened.
    """
    with region_of(pipeline, connections) as region:
        state, engine = region.state(), region.ledger.engine
        size = size_of(engine, region.name)
        if order:
            retire(engine, region.name)
            size = naming.drop_region(engine, state, order)
        return DropReport(
            region.name,
            order is not None,
            state.epoch,
            state.head_seq,
            size,
            state.tables,
            state.group_id,
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
        raise InvalidSettings(
            f"{new!r} is not a region's name: 1 to 40 small letters, digits and _, a letter first"
        )
    try:
        refuse_unfit(pipeline.all_targets, new)
    except ValueError as error:
        raise InvalidSettings(f"region {new}: {error}") from error
    with region_of(pipeline, connections) as region:
        state, engine = region.state(), region.ledger.engine
        epoch = state.epoch
        if order:
            retire(engine, region.name)
            epoch = naming.rename(engine, state, new, order)
            gone = topics_gone(region, region.ledger.partitions(new))
            mirror(region.ledger, region.group, new, epoch, gone=gone)
        return RenameReport(region.name, new, order is not None, epoch, state.group_id)
