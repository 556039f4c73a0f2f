"""What a rewind to a checkpoint removes, restores and reads again: reads through a cursor."""

from dataclasses import dataclass
from typing import Any

from tidemark.model.batch import Removal
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.state import FinishedReset
from tidemark.postgres.session import Cursor, query
from tidemark.protocol.rewind_plan import Place, RewindPlan


@dataclass(frozen=True, slots=True)
class Reread:
    """What a rewind reads again of a partition, with the counts of the first time."""

    span: Span
    """Covers the spans that the ledger still has; older ones may be pruned."""
    records: int
    first: Span
    """The oldest of these spans."""
    first_records: int


def reread(cursor: Cursor, region: str, seq: int) -> list[Reread]:
    """What a rewind to a seq reads again of each partition."""
    cursor.execute(query("reread"), {"region": region, "seq": seq})
    return [
        Reread(
            Span(topic, number, start, end),
            records,
            Span(topic, number, start, first_end),
            first_records,
        )
        for topic, number, start, end, records, first_end, first_records in cursor.fetchall()
    ]


def finished_reset(cursor: Cursor, region: str, request_id: str) -> FinishedReset | None:
    """The reset that a request has finished, if it has."""
    cursor.execute(query("finished_reset"), {"region": region, "request_id": request_id})
    found = cursor.fetchone()
    return FinishedReset(*found) if found else None


def rewind_is_under_way(cursor: Cursor, region: str) -> bool:
    """Whether a rewind has lowered Kafka and not yet the ledger; it may have crashed there."""
    cursor.execute(query("rewind_is_under_way"), {"region": region})
    return cursor.fetchone() == (True,)


def published_after(cursor: Cursor, region: str, seq: int) -> Removal:
    """What a rewind to a seq must remove."""
    cursor.execute(query("published_after"), {"region": region, "seq": seq})
    return Removal(*(cursor.fetchone() or ({}, 0)))


def restored_checkpoint(cursor: Cursor, region: str, seq: int) -> list[tuple[Any, ...]]:
    """What a rewind restores: as `merged_checkpoint`, then topic id and next offset."""
    cursor.execute(query("restored_checkpoint"), {"region": region, "seq": seq})
    return cursor.fetchall()


def _topics_read(cursor: Cursor, region: str) -> set[str]:
    cursor.execute(query("topics_read"), {"region": region})
    return {topic for (topic,) in cursor.fetchall()}


def rewind_plan(cursor: Cursor, region: str, to_seq: int) -> RewindPlan:
    """What a rewind to a checkpoint would remove and restore."""
    cursor.execute(query("rewind_plan"), {"region": region, "seq": to_seq})
    found = cursor.fetchone() or (False, 0, 0, 0, [])
    is_checkpoint, batches, dead_letters, replays, beyond = found
    return RewindPlan(
        to_seq=to_seq,
        is_checkpoint=is_checkpoint,
        batches=batches,
        dead_letters=dead_letters,
        beyond=beyond,
        places=_places(cursor, region, to_seq),
        published=published_after(cursor, region, to_seq),
        replays=replays,
    )


def _places(cursor: Cursor, region: str, seq: int) -> dict[TopicPartition, Place]:
    """Where a rewind to a seq would put each partition."""
    records = {one.span.topic_partition: one.records for one in reread(cursor, region, seq)}
    topics = _topics_read(cursor, region)
    places = {}
    for row in restored_checkpoint(cursor, region, seq):
        _, _, topic, number, offset, _, topic_id, next_offset = row
        if topic is None:  # a region without partitions gives one row
            continue
        partition = TopicPartition(topic, number)
        places[partition] = Place(
            topic_id=topic_id,
            offset=offset,
            next_offset=next_offset,
            records=records.get(partition, 0),
            is_read=topic in topics,
        )
    return places
