"""Records whose rows the target refused: their coordinates, and their dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import InvalidSettings, TargetRefused
from tidemark.model.batch import Batch
from tidemark.staging.column import Column
from tidemark.staging.target import Target

COORDINATES = {"kafka_topic": "text", "kafka_partition": "integer", "kafka_offset": "bigint"}
"""Columns that identify a row's record, with their Postgres types."""

REASON = "TARGET_REFUSED"
"""The reason of the dead letters written here."""

ROW = sql.SQL("(to_jsonb(staged) - ARRAY['member', 'attempt'])")
"""A staged row as a dead letter stores it."""

# materialized: planned as one, the few refused rows come last, after every row of the batch
_LETTERS = sql.SQL("""
WITH refused AS MATERIALIZED (
    SELECT staged.kafka_topic AS topic, staged.kafka_partition AS partition,
           staged.kafka_offset AS "offset", r.detail, {row} AS content
    FROM unnest({refused}::bigint[], {details}::text[]) AS r (place, detail)
    JOIN {places} AS p USING (place) JOIN {rows} AS staged ON staged.ctid = p.at
), written AS (
    INSERT INTO tidemark.dead_letters
        (region, partition_id, topic, partition, "offset", seq, reason, detail, refused_rows)
    SELECT s.region, s.partition_id, s.topic, s.partition, r."offset", s.seq, {reason}, r.detail,
           jsonb_agg(r.content ORDER BY r.content::text)
    FROM refused r JOIN tidemark.spans s ON s.region = {region} AND s.seq = {seq}
        AND s.topic = r.topic AND s.partition = r.partition
        AND r."offset" >= s.start_offset AND r."offset" < s.end_offset
    GROUP BY s.region, s.partition_id, s.topic, s.partition, r."offset", s.seq, r.detail
    RETURNING jsonb_array_length(refused_rows) AS rows
) SELECT count(*), coalesce(sum(rows), 0)::bigint FROM written
""")


@dataclass(frozen=True, slots=True)
class Refused:
    """A record by its place in the batch, and what of the target refuses a row of it."""

    place: int
    detail: str


@dataclass(frozen=True, slots=True)
class Written:
    """Dead letters that were written, and the refused rows that they hold."""

    letters: int
    rows: int


def missing_coordinates(columns: Sequence[Column]) -> list[str]:
    """Which coordinate columns are missing or have another type."""
    types = {column.name: column.postgres_type for column in columns}
    return [name for name, kind in COORDINATES.items() if types.get(name) != kind]


def refuse_without_coordinates(columns: Sequence[Column], setting: str, instead: str) -> None:
    """Raise InvalidSettings if rows lack the coordinates of their record, which a setting needs."""
    if missing := missing_coordinates(columns):
        raise InvalidSettings(
            f"target.{setting} needs the columns {', '.join(COORDINATES)} unchanged; the transform"
            f" drops or changes {', '.join(missing)}. Keep them, or set {instead}"
        )


def write_letters(
    cursor: Cursor,
    batch: Batch,
    target: Target,
    places: sql.Identifier,
    refused: Sequence[Refused],
) -> Written:
    """Write a dead letter for each; the rows stand there as the transform made them.

    `places` has the rows of each place. The record as it came is not at hand: Kafka is not asked
    inside a transaction, and a second one after COMMIT could be lost. Its coordinates tell where
    it is.

    Raises:
        TargetRefused: the coordinates of a refused row are not those of a record of the batch.
    """
    cursor.execute(
        _LETTERS.format(
            rows=sql.Identifier(batch.staging.schema, batch.staging.of_target(target.name).rows),
            places=places,
            row=ROW,
            reason=sql.Literal(REASON),
            region=sql.Literal(batch.region),
            seq=sql.Literal(batch.seq),
            refused=sql.Literal([one.place for one in refused]),
            details=sql.Literal([one.detail for one in refused]),
        )
    )
    written = Written(*(cursor.fetchone() or (0, 0)))
    if written.letters != len(refused):
        raise TargetRefused(
            f"{target} refuses rows of the batch, first by {refused[0].detail}; they can't"
            f" become dead letters: {', '.join(COORDINATES)} of"
            f" {len(refused) - written.letters} of them are not those of a record of"
            " the batch. Nothing is published. Keep these columns unchanged in the transform,"
            " then run again"
        )
    return written
