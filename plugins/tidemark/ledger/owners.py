"""Owners: a consumer group and a table each belong to one region."""

from collections.abc import Collection

from psycopg2.extensions import cursor as Cursor

from tidemark.ledger.errors import RegionHasOwners
from tidemark.ledger.owner import Owner
from tidemark.postgres.session import query


def others_of(
    cursor: Cursor, region: str, group_id: str, tables: Collection[str]
) -> tuple[Owner, ...]:
    """Other regions that have this group or one of these tables."""
    values = {"region": region, "group_id": group_id, "tables": list(tables)}
    cursor.execute(query("others_of"), values)
    return tuple(
        Owner(name, group_id if has_group else None, tuple(shared))
        for name, has_group, shared in cursor.fetchall()
    )


def refuse_shared(region: str, others: Collection[Owner]) -> None:
    """Refuse a region whose group or table is another's.

    Raises:
        Refused: names each owner.
    """
    if others:
        raise RegionHasOwners(region=region, owners=tuple(others))
