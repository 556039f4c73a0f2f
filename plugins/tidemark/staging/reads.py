"""Complete reads of spans: readers record them, the driver takes one for each span."""

from collections.abc import Sequence
from dataclasses import astuple

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.batch import SpanRead, Staging
from tidemark.model.errors import ReadsDiffer
from tidemark.model.offsets import LogPosition, Span

_RECORD_READS = sql.SQL("""
INSERT INTO {reads} (
    member, attempt, topic, partition, start_offset, end_offset, records, dead_letters,
    bytes, record_end, leader_epoch
)
SELECT * FROM unnest(
    %s::bigint[], %s::bigint[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[],
    %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::integer[]
)
ON CONFLICT DO NOTHING
""")


def record_reads(cursor: Cursor, staging: Staging, reads: Sequence[SpanRead]) -> int:
    """Record complete reads of spans; return how many this attempt had not recorded yet.

    The dead letters of the others are already staged: do not stage them again. One task may read
    its spans twice, if the transform uses the source twice.
    """
    rows = [
        (
            read.member,
            read.attempt,
            *astuple(read.span),
            read.records,
            read.dead_letters,
            read.bytes,
            read.record_end,
            read.leader_epoch,
        )
        for read in reads
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    cursor.execute(_RECORD_READS.format(reads=_reads(staging)), columns)
    return cursor.rowcount


def complete_reads(
    cursor: Cursor, staging: Staging, member: int, spans: Sequence[Span]
) -> tuple[SpanRead, ...]:
    """One complete read of each span by this member; spans without one are left out.

    The log is immutable, so any one complete attempt of a span will do, if all have decoded it
    alike: which of them the rows come from, Spark knows alone.

    Raises:
        JobFailed: they have not.
    """
    cursor.execute(
        sql.SQL(
            "SELECT DISTINCT ON (topic, partition) topic, partition, start_offset, end_offset,"
            " member, attempt, records, dead_letters, bytes, record_end, leader_epoch FROM {reads}"
            " WHERE member = %s ORDER BY topic, partition, attempt DESC"
        ).format(reads=_reads(staging)),
        (member,),
    )
    wanted = set(spans)
    found = [_read(*row) for row in cursor.fetchall()]
    cursor.execute(
        sql.SQL(
            "SELECT topic, partition, start_offset, end_offset FROM {reads} WHERE member = %s"
            " GROUP BY 1, 2, 3, 4 HAVING min(dead_letters) <> max(dead_letters)"
        ).format(reads=_reads(staging)),
        (member,),
    )
    if differing := tuple(span for row in cursor.fetchall() if (span := Span(*row)) in wanted):
        raise ReadsDiffer(spans=differing)
    return tuple(read for read in found if read.span in wanted)


def rows_read(cursor: Cursor, staging: Staging, member: int) -> dict[tuple[str, int, int], int]:
    """The number of rows of each complete read of this member, by topic, partition, attempt."""
    cursor.execute(
        sql.SQL(
            "SELECT topic, partition, attempt, records - dead_letters FROM {reads}"
            " WHERE member = %s"
        ).format(reads=_reads(staging)),
        (member,),
    )
    return {(topic, partition, attempt): rows for topic, partition, attempt, rows in cursor}


def _reads(staging: Staging) -> sql.Identifier:
    return sql.Identifier(staging.schema, staging.reads)


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
