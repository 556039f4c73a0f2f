"""The end of a region: the ledger has nothing more of it."""

from dataclasses import dataclass

from sqlalchemy import Engine

from tidemark.admin.errors import NotInLedger, StagingInUse
from tidemark.ledger import removing
from tidemark.ledger.actions import Order
from tidemark.ledger.removing import Size
from tidemark.postgres.transaction import autocommit
from tidemark.runs.region import ledger_of
from tidemark.runs.retire import retire
from tidemark.settings.connections import Connection
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


def drop_region(warehouse: Connection, name: str, order: Order | None) -> DropReport:
    """The ledger has nothing more of the region, or without an order the report says what goes.

    Raises:
        Superseded, Refused: see `removing.drop_region`; or the region never opened.
    """
    with ledger_of(warehouse) as ledger:
        state = ledger.region_state(name)
        if state is None:
            known = tuple(one.region for one in ledger.queries.regions())
            raise NotInLedger(region=name, known=known)
        if order:
            _retire_all(ledger.engine, name)
        size = removing.drop_region(ledger.engine, state, order)
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


def _retire_all(engine: Engine, region: str) -> None:
    """No staging table bears the region's name: nobody would look for it any more."""
    retire(engine, region)
    with autocommit(engine) as cursor:
        left = staged_batches(cursor, region)
    if left:
        raise StagingInUse(region=region, batches=tuple(left))
