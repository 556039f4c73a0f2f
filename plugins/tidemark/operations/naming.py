"""A region's end and its renaming, from outside."""

from dataclasses import dataclass

from sqlalchemy import Engine

from tidemark.ledger import naming
from tidemark.ledger.actions import Order
from tidemark.ledger.looks import Looks
from tidemark.ledger.naming import Size
from tidemark.member.retire import retire
from tidemark.model.batch import Staging
from tidemark.operations.errors import NewNameMalformed, NewNameUnfit, NotInLedger, StagingInUse
from tidemark.operations.region import Connections, ledger_of, region_of, topics_gone
from tidemark.postgres.transaction import autocommit
from tidemark.protocol.mirror import mirror
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline, is_region
from tidemark.settings.target import refuse_unfit
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
            known = tuple(one.region for one in Looks(ledger.engine).regions())
            raise NotInLedger(region=name, known=known)
        if order:
            _retire_all(ledger.engine, name)
        size = naming.drop_region(ledger.engine, state, order)
        applied, group = order is not None, state.group_id
        return DropReport(name, applied, state.epoch, state.head_seq, size, state.tables, group)


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
        refuse_unfit(pipeline.all_targets, new)
    except ValueError as error:
        raise NewNameUnfit(region=new, cause=str(error)) from error
    with region_of(pipeline, connections) as region:
        state, engine = region.state(), region.ledger.engine
        if order:
            _retire_all(engine, region.name)
        epoch = naming.rename(engine, state, new, order)
        if order:
            gone = topics_gone(region, region.ledger.partitions(new))
            mirror(region.ledger, region.group, new, epoch, gone=gone)
        return RenameReport(region.name, new, order is not None, epoch, state.group_id)


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
