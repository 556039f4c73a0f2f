"""Records out of dead letters, as they came from Kafka: byte for byte, in the client's own type."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from tidemark.ledger.letters import KeptLetter, headers_of_letter
from tidemark.model.batch import Stored
from tidemark.model.offsets import Span
from tidemark.postgres.queries import query
from tidemark.spark.postgres import connected, postgres_errors

RECORDS = 500
"""Records that are in memory at a time."""


def read_stored(
    postgres: Mapping[str, Any], stored: Stored, spans: Sequence[Span]
) -> Iterator[list[Message]]:
    """Yield the stored records of the spans in lists, each of one partition, in their order.

    Raises:
        Unreachable: Postgres does not answer.
    """
    with postgres_errors(), closing(connected(postgres)) as connection:
        yield from chain.from_iterable(stored_records(connection, stored, span) for span in spans)


def stored_records(connection: Any, stored: Stored, span: Span) -> Iterator[list[Message]]:
    """The stored records of one span."""
    values = {
        "region": stored.region,
        "seq": stored.seq,
        "is_proof": stored.is_proof,
        "topic": span.topic,
        "partition": span.partition,
        "start": span.start,
        "end": span.end,
    }
    with connection.cursor(name="stored") as cursor:
        cursor.execute(query("stored_records"), values)
        while rows := cursor.fetchmany(RECORDS):
            yield [_record(*row) for row in rows]


def record_of(kept: KeptLetter) -> Message:
    """The record that a dead letter keeps."""
    letter = kept.letter
    where = letter.topic, letter.partition, letter.offset, letter.timestamp_ms
    return _record(*where, letter.key, letter.value, kept.headers)


def _record(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int | None,
    key: memoryview | bytes | None,
    value: memoryview | bytes | None,
    headers: list[dict[str, Any]] | None,
) -> Message:
    is_known = timestamp_ms is not None
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=None if key is None else bytes(key),
        value=None if value is None else bytes(value),
        headers=headers_of_letter(headers or []),
        timestamp=(
            (TIMESTAMP_CREATE_TIME, timestamp_ms) if is_known else (TIMESTAMP_NOT_AVAILABLE, 0)
        ),
    )
