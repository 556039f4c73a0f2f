"""Reads of a region through a cursor, with the region lock or without it."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from psycopg2.extensions import cursor as Cursor

from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.state import KnownTarget, Partition, RegionState
from tidemark.model.table_name import parse_table
from tidemark.model.upsert import text_form
from tidemark.postgres.session import query


def state(region: str, row: tuple[Any, ...]) -> RegionState:
    """A row of `lock_region` or `region_state`."""
    *facts, targets = row
    known = {name: KnownTarget(*one) for name, one in targets.items()}
    return replace(RegionState(region, *facts), targets=known)


def partitions(cursor: Cursor, region: str) -> dict[TopicPartition, Partition]:
    """Every partition of the region as the ledger knows it."""
    cursor.execute(query("partitions"), {"region": region})
    return {
        TopicPartition(topic, number): Partition(*facts)
        for topic, number, *facts in cursor.fetchall()
    }


def target_offsets(cursor: Cursor, region: str, epoch: int) -> Offsets:
    """Where the run of an epoch stops."""
    cursor.execute(query("target_offsets"), {"region": region, "epoch": epoch})
    return {TopicPartition(topic, number): offset for topic, number, offset in cursor.fetchall()}


def target_oid(cursor: Cursor, target: str) -> int | None:
    """The OID of the table that has this name; None if there is none."""
    schema, table = parse_table(target)
    cursor.execute(query("target_oid"), {"schema": schema, "table": table})
    found = cursor.fetchone()
    return found[0] if found else None


def key_forms(cursor: Cursor, target: str, columns: Collection[str]) -> dict[str, str]:
    """The form of the texts of each of these columns that the table of this name has now."""
    schema, table = parse_table(target)
    cursor.execute(query("find_columns"), {"schema": schema, "table": table})
    return {name: text_form(kind) for name, kind, *_ in cursor.fetchall() if name in columns}
