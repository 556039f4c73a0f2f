"""What a rewind to a checkpoint removes and reads again, as a cursor sees the ledger."""

from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import cursor as Cursor

from tidemark.model.offsets import Span, TopicPartition
from tidemark.postgres.queries import query
from tidemark.protocol.removal import Removal
from tidemark.protocol.reset import Place, RewindPlan


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What a rewind reads again of a partition, as the ledger counted it when it was read."""

    span: Span
    """As far as the ledger has its spans; older ones may be pruned."""
    records: int
    first: Span
    """The oldest of these spans."""
    first_records: int


def read_again(cursor: Cursor, region: str, seq: int) -> list[ReadAgain]:
    """What a rewind to a seq reads again."""
    cursor.execute(query("read_again"), {"region": region, "seq": seq})
    return [
        ReadAgain(
            Span(topic, number, start, end),
            records,
            Span(topic, number, start, first_end),
            first_records,
        )
        for topic, number, start, end, records, first_end, first_records in cursor.fetchall()
    ]


def published_after(cursor: Cursor, region: str, seq: int) -> Removal:
    """What a rewind to a seq has to remove."""
    cursor.execute(query("published_after"), {"region": region, "seq": seq})
    return Removal(*(cursor.fetchone() or (0, 0)))


def restored_checkpoint(cursor: Cursor, region: str, seq: int) -> list[tuple[Any, ...]]:
    """Epoch, seq, topic, partition, offset, topic id and next offset: where a rewind leads."""
    cursor.execute(query("restored_checkpoint"), {"region": region, "seq": seq})
    return cursor.fetchall()


def rewind_plan(cursor: Cursor, region: str, to_seq: int) -> RewindPlan:
    """What a rewind to a checkpoint would take back."""
    cursor.execute(query("rewind_plan"), {"region": region, "seq": to_seq})
    is_checkpoint, batches, dead_letters, beyond = cursor.fetchone() or (False, 0, 0, [])
    places = {
        TopicPartition(topic, number): Place(topic_id, offset, next_offset)
        for _, _, topic, number, offset, topic_id, next_offset in restored_checkpoint(
            cursor, region, to_seq
        )
        if topic is not None
    }
    removal = published_after(cursor, region, to_seq)
    return RewindPlan(to_seq, is_checkpoint, batches, dead_letters, beyond, places, removal)
