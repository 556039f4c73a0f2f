"""Another group or other names of its tables for a region: what it has published stays."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor
from sqlalchemy import Engine

from tidemark.ledger import regions
from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.errors import RegionKeepsTargets, TableMovesWithItsRows
from tidemark.ledger.naming import at_rest
from tidemark.ledger.owners import others_of, refuse_shared
from tidemark.model.state import Mirrored, RegionState
from tidemark.postgres.queries import query
from tidemark.postgres.transaction import transaction


@dataclass(frozen=True, slots=True)
class Place:
    """The group and the tables, by the names of their targets, that a region is to have."""

    group_id: str
    tables: Mapping[str, str]


def move(engine: Engine, state: RegionState, to: Place, seen: Mirrored, order: Order | None) -> int:
    """The region has this group and these tables, under a new epoch, which is returned.

    The epoch and the seqs are above those seen in the group. Without an order nothing changes.
    If it crashes: all of it stands, or nothing.

    Raises:
        Superseded: another epoch has begun since the state was read.
        Refused: the region is not at rest, another region has one of them, or a table is not the
            one that the region has published to.
    """
    with transaction(engine, "move") as cursor:
        found = at_rest(cursor, state)
        refuse_shared(
            state.region, others_of(cursor, state.region, to.group_id, to.tables.values())
        )
        _refuse_other_tables(cursor, found, to)
        if order is None:
            return found.epoch
        own = {"region": state.region}
        tables = {"targets": [*to.tables], "tables": [*to.tables.values()]}
        cursor.execute(query("move_targets"), own | tables)
        above = {"group_id": to.group_id, "epoch": seen.epoch, "seq": seen.seq}
        cursor.execute(query("move"), own | above)
        (epoch,) = cursor.fetchone() or (0,)
        was = {"group": found.group_id, "target": found.tables}
        write_action(cursor, state.region, "move", order, was | {"to": to.group_id})
        return int(epoch)


def _refuse_other_tables(cursor: Cursor, found: RegionState, to: Place) -> None:
    if found.targets.keys() != to.tables.keys():
        raise RegionKeepsTargets(
            region=found.region, targets=tuple(found.targets), asked=tuple(to.tables)
        )
    for name, table in to.tables.items():
        known, oid = found.targets[name], regions.target_oid(cursor, table)
        if known.oid is not None and oid != known.oid:
            raise TableMovesWithItsRows(
                region=found.region, table=known.table, oid=known.oid, asked=table, asked_oid=oid
            )
