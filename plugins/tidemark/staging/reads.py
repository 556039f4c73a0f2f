"""What readers have staged: complete reads of spans, and their dead letters."""

from collections.abc import Sequence

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import SpanRead, Staging
from tidemark.model.offsets import LogPosition, Span


def complete_reads(
    cursor: Cursor, staging: Staging, member: int, spans: Sequence[Span]
) -> tuple[SpanRead, ...]:
    """One complete read of each span by this member; spans without one are left out.

    The log is immutable, so any one complete attempt of a span will do.
    """
    cursor.execute(
        sql.SQL(
            "SELECT DISTINCT ON (topic, partition) topic, partition, start_offset, end_offset,"
            " member, attempt, records, dead_letters, bytes, record_end, leader_epoch FROM {reads}"
            " WHERE member = %s ORDER BY topic, partition, attempt DESC"
        ).format(reads=sql.Identifier(staging.schema, staging.reads)),
        (member,),
    )
    found = [_read(*row) for row in cursor.fetchall()]
    return tuple(read for read in found if read.span in set(spans))


def rows_read(cursor: Cursor, staging: Staging, member: int) -> dict[tuple[str, int, int], int]:
    """Rows that each complete read of this member gave, by topic, partition and attempt."""
    cursor.execute(
        sql.SQL(
            "SELECT topic, partition, attempt, records - dead_letters FROM {reads}"
            " WHERE member = %s"
        ).format(reads=sql.Identifier(staging.schema, staging.reads)),
        (member,),
    )
    return {(topic, partition, attempt): rows for topic, partition, attempt, rows in cursor}


def _read(
    topic: str,
    partition: int,
    start: int,
    end: int,
    member: int,
    attempt: int,
    records: int,
    dead_letters: int,
    size: int,
    *read_up_to: int | None,
) -> SpanRead:
    span, position = Span(topic, partition, start, end), LogPosition.known(*read_up_to)
    return SpanRead(span, member, attempt, records, dead_letters, size, position)


def move_dead_letters(
    cursor: Cursor,
    staging: Staging,
    region: str,
    seq: int,
    reads: Sequence[tuple[int, int, str, int]],
) -> int:
    """Move the dead letters of the reads that count into the ledger; return how many."""
    members, attempts, topics, partitions = zip(*reads, strict=True)
    cursor.execute(
        sql.SQL(
            "INSERT INTO tidemark.dead_letters (region, partition_id, topic, partition, {offset},"
            " seq, timestamp_ms, key, value, headers, reason, detail)"
            " SELECT s.region, s.partition_id, d.topic, d.partition, d.{offset}, s.seq,"
            " d.timestamp_ms, d.key, d.value,"
            " d.headers, d.reason, d.detail FROM {dead_letters} d"
            " JOIN unnest(%s::bigint[], %s::bigint[], %s::text[], %s::int[])"
            " AS r (member, attempt, topic, partition) USING (member, attempt, topic, partition)"
            " JOIN tidemark.spans s ON s.region = %s AND s.seq = %s"
            " AND s.topic = d.topic AND s.partition = d.partition"
        ).format(
            offset=sql.Identifier("offset"),
            dead_letters=sql.Identifier(staging.schema, staging.dead_letters),
        ),
        (list(members), list(attempts), list(topics), list(partitions), region, seq),
    )
    return cursor.rowcount
