"""Records whose rows the target refused: their coordinates, and their dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import InvalidSettings, TargetRefused
from tidemark.model.batch import Batch
from tidemark.staging.columns import Column
from tidemark.staging.target import Target

COORDINATES = {"kafka_topic": "text", "kafka_partition": "integer", "kafka_offset": "bigint"}
"""Columns that identify a row's record, with their Postgres types."""

REASON = "TARGET_REFUSED"
"""The reason of the dead letters written here."""

ROW = sql.SQL("(to_jsonb(staged) - ARRAY['member', 'attempt'])")
"""A staged row as a dead letter stores it."""

_LETTERS = sql.SQL("""
INSERT INTO tidemark.dead_letters
    (region, partition_id, topic, partition, "offset", seq, reason, detail, refused_rows)
SELECT s.region, s.partition_id, s.topic, s.partition, r."offset", s.seq, {reason}, r.detail,
       jsonb_agg({row} ORDER BY {row}::text)
FROM unnest({topics}::text[], {partitions}::int[], {offsets}::bigint[], {details}::text[],
            {ctids}::tid[]) AS r (topic, partition, "offset", detail, ctid)
JOIN tidemark.spans s ON s.region = {region} AND s.seq = {seq} AND s.topic = r.topic
    AND s.partition = r.partition AND r."offset" >= s.start_offset AND r."offset" < s.end_offset
JOIN {rows} AS staged ON staged.ctid = r.ctid
GROUP BY s.region, s.partition_id, s.topic, s.partition, r."offset", s.seq, r.detail
""")


@dataclass(frozen=True, slots=True)
class Record:
    """A record by its coordinates, with the ctids of its staged rows."""

    topic: str
    partition: int
    offset: int
    ctids: list[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """A record of which the target refuses a row; `detail` names what of the target refuses it."""

    record: Record
    detail: str


def missing_coordinates(columns: Sequence[Column]) -> list[str]:
    """Which coordinate columns are missing or have another type."""
    types = {column.name: column.postgres_type for column in columns}
    return [name for name, kind in COORDINATES.items() if types.get(name) != kind]


def refuse_without_coordinates(columns: Sequence[Column]) -> None:
    """Raise InvalidSettings if rows lack the coordinates of their record."""
    if missing := missing_coordinates(columns):
        raise InvalidSettings(
            f"target.on_refused: dead_letter needs the columns {', '.join(COORDINATES)}"
            f" unchanged; the transform drops or changes {', '.join(missing)}. Keep them, or set"
            " on_refused: stop"
        )


def write_letters(cursor: Cursor, batch: Batch, target: Target, refused: Sequence[Refused]) -> int:
    """Write a dead letter for each record, with its rows as the transform made them.

    It lacks the raw record: Kafka is never asked inside a transaction, and a second transaction
    after COMMIT could be lost. Its coordinates say where the record is in Kafka.

    Raises:
        TargetRefused: the coordinates of a refused row are not those of a record of the batch.
    """
    each = [(one, ctid) for one in refused for ctid in one.record.ctids]
    cursor.execute(
        _LETTERS.format(
            rows=sql.Identifier(batch.staging.schema, batch.staging.rows),
            row=ROW,
            reason=sql.Literal(REASON),
            region=sql.Literal(batch.region),
            seq=sql.Literal(batch.seq),
            topics=sql.Literal([one.record.topic for one, _ in each]),
            partitions=sql.Literal([one.record.partition for one, _ in each]),
            offsets=sql.Literal([one.record.offset for one, _ in each]),
            details=sql.Literal([one.detail for one, _ in each]),
            ctids=sql.Literal([ctid for _, ctid in each]),
        )
    )
    if cursor.rowcount != len(refused):
        raise TargetRefused(
            f"{target} refuses rows of the batch, first by {refused[0].detail}; they can't"
            f" become dead letters: {', '.join(COORDINATES)} of"
            f" {len(refused) - cursor.rowcount} of them are not those of a record of"
            " the batch. Nothing is published. Keep these columns unchanged in the transform,"
            " then run again"
        )
    return cursor.rowcount
