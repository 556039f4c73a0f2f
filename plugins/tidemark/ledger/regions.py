"""Reads of a region through a cursor, with the region lock or without it.

A consumer group and a table each belong to one region.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from tidemark.ledger.errors import RegionHasOwners
from tidemark.model.batch import Batch, PlannedSpan
from tidemark.model.deletions import UnreadSince
from tidemark.model.offsets import LogPosition, Offsets, Span, TopicPartition
from tidemark.model.state import KnownTarget, Owner, Partition, RegionState
from tidemark.model.table_name import parse_table
from tidemark.model.upsert import text_form
from tidemark.postgres.session import Cursor, query

TimesUnread = dict[TopicPartition, tuple[datetime, int | None]]
"""Since when deletions of a partition may have waited, and for how many ms they were kept then."""


def state(region: str, row: tuple[Any, ...]) -> RegionState:
    """A row of `region_state`."""
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


def unpublished(cursor: Cursor, region: str) -> list[tuple[int, int, int, bool]]:
    """Seq, epoch, number of spans and whether all are claimed, of each unpublished batch.

    The lowest is first.
    """
    cursor.execute(query("unpublished_batches"), {"region": region})
    return cursor.fetchall()


def unpublished_spans(
    cursor: Cursor, region: str, seq: int, owned: Collection[TopicPartition] | None = None
) -> tuple[PlannedSpan, ...]:
    """The spans of an unpublished batch; with `owned`, those of other partitions may be missing."""
    values = {
        "region": region,
        "seq": seq,
        "topics": None if owned is None else list({one.topic for one in owned}),
        "partitions": None if owned is None else list({one.partition for one in owned}),
    }
    cursor.execute(query("unpublished_batch_spans"), values)
    return tuple(
        PlannedSpan(Span(*row[:4]), row[4], row[5] is not None, LogPosition.known(*row[6:]))
        for row in cursor.fetchall()
    )


def unpublished_batches(
    cursor: Cursor, region: str, owned: Collection[TopicPartition] | None = None
) -> tuple[Batch, ...]:
    """The unpublished batches with their claims, the lowest first; `owned` as above."""
    return tuple(
        Batch(
            region=region,
            epoch=epoch,
            seq=seq,
            spans=unpublished_spans(cursor, region, seq, owned),
            size=size,
            is_complete=is_complete,
        )
        for seq, epoch, size, is_complete in unpublished(cursor, region)
    )


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


def unread(cursor: Cursor, region: str) -> dict[TopicPartition, UnreadSince]:
    """How long deletions of each partition may have waited to be read."""
    return until_now(cursor, times_unread(cursor, region))


def times_unread(cursor: Cursor, region: str) -> TimesUnread:
    """Since when deletions of each partition may have waited, and how long they were kept (ms)."""
    cursor.execute(query("unread"), {"region": region})
    return {TopicPartition(*where): (at, kept) for *where, at, kept in cursor.fetchall()}


def until_now(cursor: Cursor, times: TimesUnread) -> dict[TopicPartition, UnreadSince]:
    """How long that is by now, by the database's clock."""
    cursor.execute(query("now"))
    [(now,)] = cursor.fetchall()
    return {tp: UnreadSince((now - at).total_seconds(), kept) for tp, (at, kept) in times.items()}


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
