"""A batch's own staging tables: created when its drain begins, dropped when it is retired.

Readers record there which spans they have read whole; the driver takes one such read for each span.
"""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import psycopg2.errors
from psycopg2 import sql

from tidemark.model.batch import STAGING_SCHEMA, Attempt, Batch, SpanRead, Staging
from tidemark.model.errors import ReadsDiffer
from tidemark.model.incomplete_read import refuse_unread
from tidemark.model.offsets import LogPosition, Span
from tidemark.postgres.errors import StagingDiscarded
from tidemark.postgres.session import Cursor, configure, lock_name, query
from tidemark.staging.catalog import find_columns
from tidemark.staging.column import Column
from tidemark.staging.errors import StagingHasOtherColumns
from tidemark.staging.move import count_rows

DROP_WAIT_MS = 500
"""Milliseconds that a drop waits for a zombie that still writes."""

_ROWS = sql.SQL("""
CREATE UNLOGGED TABLE IF NOT EXISTS {rows} (
    member bigint NOT NULL,
    attempt bigint NOT NULL,
    {columns}
) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off)
""")
_DEAD_LETTERS = sql.SQL("""
CREATE UNLOGGED TABLE IF NOT EXISTS {dead_letters} (
    member bigint NOT NULL,
    attempt bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    timestamp_ms bigint,
    key bytea,
    value bytea,
    headers jsonb,
    reason text NOT NULL,
    detail text NOT NULL,
    hash bytea,
    whole_bytes bigint
) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off)
""")
# logged: it must outlive a crash of Postgres that empties the other two
_READS = sql.SQL("""
CREATE TABLE IF NOT EXISTS {reads} (
    member bigint NOT NULL,
    attempt bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    records bigint NOT NULL,
    dead_letters bigint NOT NULL,
    bytes bigint NOT NULL,
    record_end bigint,
    leader_epoch integer,
    PRIMARY KEY (member, attempt, topic, partition, start_offset)
) WITH (autovacuum_enabled = off)
""")


_GRANT = sql.SQL("GRANT INSERT ON {rows}, {dead_letters}, {reads} TO {writer}")


def create(
    cursor: Cursor, staging: Staging, columns: Sequence[Column], writer: str | None = None
) -> None:
    """Create the batch's staging tables with `columns` if absent, in the caller's transaction.

    Members may call it at the same time: the second waits for the first one's COMMIT. `writer` is
    another role, which may insert into them and no more.

    Raises:
        SchemaMismatch: another member has created them with other columns.
    """
    lock_name(cursor, f"tidemark {staging.rows}")
    names = _names(staging)
    definitions = [
        sql.SQL("{} " + column.staged_type).format(sql.Identifier(column.staged_name))
        for column in columns
    ]
    cursor.execute(_ROWS.format(**names, columns=sql.SQL(", ").join(definitions)))
    cursor.execute(_DEAD_LETTERS.format(**names))
    cursor.execute(_READS.format(**names))
    if writer:
        cursor.execute(_GRANT.format(**names, writer=sql.Identifier(writer)))
    refuse_other_columns(cursor, staging, columns)


def are_there(cursor: Cursor, staging: Staging) -> bool:
    """Whether the batch has staging tables: they are made together."""
    cursor.execute(query("staging_is_there"), {"schema": staging.schema, "reads": staging.reads})
    return cursor.fetchone() == (True,)


def refuse_missing(cursor: Cursor, staging: Staging) -> None:
    """The staging tables are there.

    Raises:
        StagingLost: a newer epoch has discarded the batch, or Postgres has lost them.
    """
    if not are_there(cursor, staging):
        raise StagingDiscarded


def staged_batches(cursor: Cursor, region: str) -> list[int]:
    """Return the `seq` of every batch of the region that still has a staging table."""
    values = {"schema": STAGING_SCHEMA, "pattern": Staging.pattern(region)}
    cursor.execute(query("staged_batches"), values)
    return [seq for (seq,) in cursor.fetchall()]


def drop(cursor: Cursor, staging: Staging, *, wait_ms: int = DROP_WAIT_MS) -> bool:
    """Drop the batch's staging tables, in the caller's transaction; False if they are in use.

    Best effort: a table that a zombie still writes to is left for a later call, and the
    transaction goes on.
    """
    names = table_names(cursor, staging)
    tables = sql.SQL(", ").join(sql.Identifier(staging.schema, name) for name in names)
    cursor.execute("SAVEPOINT drop_staging")
    cursor.execute("SHOW lock_timeout")
    (before,) = cursor.fetchone() or ("0",)
    try:
        configure(cursor, {"lock_timeout": str(wait_ms)}, is_local=True)
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(tables))
        configure(cursor, {"lock_timeout": before}, is_local=True)
    except psycopg2.errors.LockNotAvailable:
        cursor.execute("ROLLBACK TO SAVEPOINT drop_staging")
        return False
    cursor.execute("RELEASE SAVEPOINT drop_staging")
    return True


def table_names(cursor: Cursor, staging: Staging) -> list[str]:
    """The batch's staging tables, of all targets, whatever these were called when it was made."""
    return [*_find_rows_tables(cursor, staging), staging.dead_letters, staging.reads]


def _find_rows_tables(cursor: Cursor, staging: Staging) -> list[str]:
    values = {"schema": staging.schema, "rows": staging.rows}
    cursor.execute(query("find_rows_tables"), values)
    return [name for (name,) in cursor.fetchall()]


def _names(staging: Staging) -> dict[str, sql.Composable]:
    return {
        kind: sql.Identifier(staging.schema, getattr(staging, kind))
        for kind in ("rows", "dead_letters", "reads")
    }


def refuse_other_columns(cursor: Cursor, staging: Staging, columns: Sequence[Column]) -> None:
    """A batch's staging table, if it is there, has exactly these columns.

    Raises:
        SchemaMismatch: another member has made it for other columns.
    """
    wanted = {column.staged_name: column.staged_type for column in columns}
    found = {
        column.name: column.type_name
        for column in find_columns(cursor, staging.schema, staging.rows)[2:]
    }
    if found != wanted:
        table = f"{staging.schema}.{staging.rows}"
        raise StagingHasOtherColumns(table=table, found=found, wanted=wanted)


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


def whole_reads(
    cursor: Cursor,
    batch: Batch,
    member: int,
    spans: Sequence[Span],
    winners: Sequence[Attempt],
    transform: str | None,
) -> tuple[SpanRead, ...]:
    """One complete read of each span; `transform` is the name of what may have cut them.

    Raises:
        JobFailed, StagingLost, IncompleteRead: see `complete_reads`, `refuse_unread`.
    """
    refuse_missing(cursor, batch.staging)
    reads = complete_reads(cursor, batch.staging, member, spans)
    is_staged = len(reads) == len(spans) or rows_are_staged(cursor, batch.staging, winners)
    refuse_unread(batch, spans, reads, transform, is_staged=is_staged)
    return reads


def rows_are_staged(cursor: Cursor, staging: Staging, winners: Sequence[Attempt]) -> bool:
    """Whether all rows are there that these task attempts have staged."""
    keys = [winner.key for winner in winners]
    targets = {name for winner in winners for name in winner.rows}
    return all(
        count_rows(cursor, staging.of_target(name), keys)
        == sum(winner.rows.get(name, 0) for winner in winners)
        for name in targets
    )


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
    found = [_read(row) for row in cursor.fetchall()]
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


def _read(row: tuple[Any, ...]) -> SpanRead:
    *span, member, attempt, records, dead_letters, size, record_end, leader_epoch = row
    return SpanRead(
        span=Span(*span),
        member=member,
        attempt=attempt,
        records=records,
        dead_letters=dead_letters,
        bytes=size,
        read_up_to=LogPosition.known(record_end, leader_epoch),
    )
