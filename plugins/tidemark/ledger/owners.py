"""Owners: a consumer group and a table each belong to one region."""

from collections.abc import Collection
from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor

from tidemark.errors import Refused
from tidemark.postgres.queries import query


@dataclass(frozen=True, slots=True)
class Owner:
    """Another region, with what it has of a region's own."""

    region: str
    group_id: str | None
    tables: tuple[str, ...]

    def __str__(self) -> str:
        group = [f"consumer group {self.group_id!r}"] if self.group_id else []
        targets = [f"target {table}" for table in self.tables]
        return f"region {self.region} has {' and '.join([*group, *targets])}"


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
        raise Refused(
            f"{'; '.join(map(str, others))}: a group and a table belong to one region. Give region"
            f" {region} its own (kafka.group, target.table); if it was renamed, write the new name"
            " into the pipeline file (`tidemark region list`)"
        )
