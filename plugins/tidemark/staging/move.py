"""Move a batch's staged rows into the target, and its dead letters into the ledger.

Appending puts every staged row in. What every mode does is the port here: nobody else knows the
modes.
"""

from collections.abc import Sequence
from typing import Protocol

from psycopg2 import sql

from tidemark.model.batch import Batch, Moved, SpanRead, Staging
from tidemark.postgres.session import Cursor
from tidemark.staging._guarded import made_of
from tidemark.staging.column import BATCH_SEQ, Column
from tidemark.staging.target import Target

# a semi-join: a winner named twice moves its rows once
_OF_WINNERS = sql.SQL("""(staged.member, staged.attempt) IN (
    SELECT member, attempt
    FROM unnest({members}::bigint[], {attempts}::bigint[]) AS winners (member, attempt)
)""")
_MOVE = sql.SQL("""
INSERT INTO {target} ({names}, {batch_seq})
SELECT {values}, {seq}::bigint FROM {rows} AS staged WHERE {chosen}
""")
_COUNT = sql.SQL("SELECT count(*) FROM {rows} AS staged WHERE {chosen}")
_COUNT_DEAD_LETTERS = sql.SQL("""
SELECT count(*) FROM {dead_letters}
JOIN unnest(%s::bigint[], %s::bigint[], %s::text[], %s::int[])
    AS r (member, attempt, topic, partition) USING (member, attempt, topic, partition)
""")
# by each dead letter, not by each span: a wide batch may have few
_MOVE_DEAD_LETTERS = sql.SQL("""
INSERT INTO tidemark.dead_letters
    (region, partition_id, topic, partition, "offset", seq,
     timestamp_ms, key, value, headers, reason, detail, hash, whole_bytes)
SELECT s.region, s.partition_id, d.topic, d.partition, d."offset", s.seq,
       d.timestamp_ms, d.key, d.value, d.headers, d.reason, d.detail, d.hash, d.whole_bytes
FROM {dead_letters} d
CROSS JOIN LATERAL (
    SELECT n.region, n.partition_id, n.seq
    FROM tidemark.spans n JOIN tidemark.contributions c USING (contribution)
    WHERE n.region = %s AND n.seq = %s AND n.topic = d.topic AND n.partition = d.partition
      AND n.attempt = d.attempt AND c.member = d.member LIMIT 1
) s
""")
_WITH_ZONE = sql.SQL("""
CASE WHEN {staged} IS NOT NULL THEN ARRAY(
    SELECT element AT TIME ZONE 'UTC'
    FROM unnest({staged}) WITH ORDINALITY AS elements (element, place)
    ORDER BY place
) END
""")


def move_rows(
    cursor: Cursor,
    staging: Staging,
    target: Target,
    columns: Sequence[Column],
    seq: int,
    winners: Sequence[tuple[int, int]],
) -> int:
    """Insert the winners' staged rows into the target as batch `seq`; return how many went in.

    `winners` are (member, attempt). Runs in the caller's transaction; staging keeps its rows.
    Deferred constraints are checked here, so that the target can't make COMMIT fail.

    Raises:
        psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
    """
    moved = insert_rows(cursor, staging, target, columns, seq, of_winners(winners))
    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return moved


def move_dead_letters(cursor: Cursor, staging: Staging, region: str, seq: int) -> int:
    """Move the dead letters of the reads that were claimed into the ledger; return how many."""
    dead_letters = sql.Identifier(staging.schema, staging.dead_letters)
    cursor.execute(_MOVE_DEAD_LETTERS.format(dead_letters=dead_letters), (region, seq))
    return cursor.rowcount


def of_winners(winners: Sequence[tuple[int, int]]) -> sql.Composable:
    """The SQL condition that a staged row is of a winning (member, attempt)."""
    # literals: if there are parameters, psycopg2 reads a % in a name as a placeholder
    return _OF_WINNERS.format(
        members=sql.Literal([member for member, _ in winners]),
        attempts=sql.Literal([attempt for _, attempt in winners]),
    )


def count_rows(cursor: Cursor, staging: Staging, winners: Sequence[tuple[int, int]]) -> int:
    """How many staged rows are of one of the (member, attempt) that count."""
    rows = sql.Identifier(staging.schema, staging.rows)
    cursor.execute(_COUNT.format(rows=rows, chosen=of_winners(winners)))
    return int((cursor.fetchone() or (0,))[0])


def count_dead_letters(cursor: Cursor, staging: Staging, reads: Sequence[SpanRead]) -> int:
    """How many dead letters of the reads are in staging."""
    cursor.execute(
        _COUNT_DEAD_LETTERS.format(
            dead_letters=sql.Identifier(staging.schema, staging.dead_letters)
        ),
        (
            [read.member for read in reads],
            [read.attempt for read in reads],
            [read.span.topic for read in reads],
            [read.span.partition for read in reads],
        ),
    )
    return int((cursor.fetchone() or (0,))[0])


def insert_rows(
    cursor: Cursor,
    staging: Staging,
    target: Target,
    columns: Sequence[Column],
    seq: int,
    chosen: sql.Composable,
) -> int:
    """Insert the staged rows that meet `chosen`; return how many went in."""
    statement = _MOVE.format(
        target=target.identifier,
        names=sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        batch_seq=sql.Identifier(BATCH_SEQ),
        values=sql.SQL(", ").join(map(staged_value, columns)),
        seq=sql.Literal(seq),
        rows=sql.Identifier(staging.schema, staging.rows),
        chosen=chosen,
    )
    cursor.execute(statement)
    return cursor.rowcount


def staged_value(column: Column) -> sql.Composable:
    """The column's value of a staged row, as the target takes it."""
    if column.is_empty:
        # an untyped NULL fits whatever type the target has
        return sql.SQL("NULL")
    staged = sql.Identifier("staged", column.staged_name)
    if column.parsed_as:
        # a name that Postgres has quoted itself
        guarded = made_of(staged, column.parsed_as)
        return guarded or sql.SQL("{}::{}").format(staged, sql.SQL(column.parsed_as))
    return _WITH_ZONE.format(staged=staged) if column.needs_zone else staged


_PLACES = sql.SQL("""
SELECT kafka_topic, kafka_partition, kafka_offset, staged.ctid AS at
FROM {rows} AS staged WHERE {chosen}
""")
_AT = sql.SQL("staged.ctid = ANY ({at})")


class Appending:
    """One batch and the target that it is appended to."""

    is_final = True

    def __init__(
        self,
        cursor: Cursor,
        batch: Batch,
        *,
        target: Target,
        columns: Sequence[Column],
        winners: Sequence[tuple[int, int]],
    ) -> None:
        """`columns` with what of the target parses their texts, see `parsed`."""
        self.target = target
        self._cursor = cursor
        self._seq = batch.seq
        self._staging: Staging = batch.staging.of_target(target.name)
        self._columns = columns
        self._winners = of_winners(winners)
        self._chosen: sql.Composable = self._winners

    def prepare(self, wanted: sql.Composable) -> None:
        """Leave out records that are not wanted."""
        self._chosen = sql.SQL("{} AND {}").format(self._winners, wanted)

    def places(self) -> sql.Composed:
        """The staged rows."""
        rows = sql.Identifier(self._staging.schema, self._staging.rows)
        return _PLACES.format(rows=rows, chosen=self._chosen)

    def apply(self, at: sql.Composable | None = None) -> int:
        """Insert the rows; how many went in.

        Raises:
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """
        chosen = self._chosen if at is None else _AT.format(at=at)
        return insert_rows(
            self._cursor, self._staging, self.target, self._columns, self._seq, chosen
        )

    def finish(self, written: int) -> Moved:
        """Nothing is left to do."""
        return Moved(written)

    def trial(self) -> "Appending":
        """The rows as they are."""
        return self


EVERYTHING = sql.SQL("true")
"""Leaves no record out."""


class Moving(Protocol):
    """Prepared, then applied as a whole or in slices of records, then finished."""

    target: Target

    @property
    def is_final(self) -> bool:
        """Whether slices that went in stay right without those that are refused."""

    def prepare(self, wanted: sql.Composable) -> None:
        """Read what is staged; `wanted` is the condition of the records that are not left out."""

    def places(self) -> sql.Composed:
        """A SELECT of what `apply` takes: coordinates of the record, and the ctid `at`."""

    def apply(self, at: sql.Composable | None = None) -> int:
        """Change the target by the rows whose ctids are in `at`, or by all; how many it now has.

        Raises:
            psycopg2.Error: the target refuses a row if `is_refusal` is true of it.
        """

    def finish(self, written: int) -> Moved:
        """What became of the rows, once all of them are applied."""

    def trial(self) -> Appending:
        """Takes the staged rows one by one, to find those that can't be prepared."""
