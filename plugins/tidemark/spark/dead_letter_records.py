"""Records out of dead letters, as they came from Kafka: byte for byte, in the client's own type.

One of which the ledger keeps only the beginning is read from Kafka again.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from tidemark.errors import CorruptRecord, DataLost
from tidemark.kafka.headers import headers_of
from tidemark.kafka.spans import read_spans
from tidemark.ledger.kept_dead_letters import KeptDeadLetter, headers_of_dead_letter
from tidemark.model.batch import Stored
from tidemark.model.dead_letters import record_hash
from tidemark.model.offsets import Span
from tidemark.postgres.session import query
from tidemark.spark._postgres import postgres_errors, task_session
from tidemark.spark.errors import CutDeadLetterNotWhole

RECORDS = 500
"""Records that are in memory at a time."""


def read_stored(
    postgres: Mapping[str, Any], kafka: Mapping[str, Any], stored: Stored, spans: Sequence[Span]
) -> Iterator[list[Message]]:
    """Yield the stored records of the spans in lists, each of one partition, in their order.

    Raises:
        Unreachable: Postgres or Kafka does not answer.
        Refused: the beginning of a record is kept, and Kafka does not give the rest.
    """
    with postgres_errors(), task_session(postgres) as connection:
        yield from chain.from_iterable(
            _stored_records(connection, kafka, stored, span) for span in spans
        )


def _stored_records(
    connection: Any, kafka: Mapping[str, Any], stored: Stored, span: Span
) -> Iterator[list[Message]]:
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
            for is_cut, some in groupby(rows, lambda row: row[-1] is not None):
                if is_cut:
                    yield from ([_whole(kafka, *row)] for row in some)
                else:
                    yield [_record(*row[:-2]) for row in some]


def _whole(
    kafka: Mapping[str, Any], topic: str, partition: int, offset: int, *rest: Any
) -> Message:
    *_, digest, size = rest
    return _read_again(kafka, Span(topic, partition, offset, offset + 1), bytes(digest), size)


def record_of(kept: KeptDeadLetter, kafka: Mapping[str, Any]) -> Message:
    """The record that a dead letter keeps, or whose beginning it keeps.

    Raises:
        Unreachable, Refused: see `read_stored`.
    """
    dead_letter = kept.dead_letter
    if dead_letter.whole_bytes is not None:
        span = Span(
            dead_letter.topic, dead_letter.partition, dead_letter.offset, dead_letter.offset + 1
        )
        return _read_again(kafka, span, dead_letter.hash, dead_letter.whole_bytes)
    where = dead_letter.topic, dead_letter.partition, dead_letter.offset, dead_letter.timestamp_ms
    return _record(*where, dead_letter.key, dead_letter.value, kept.headers)


def _read_again(kafka: Mapping[str, Any], span: Span, digest: bytes | None, size: int) -> Message:
    """The span's record as Kafka holds it, if it is the one that was read before."""
    try:
        found = [*chain.from_iterable(read_spans(kafka, [span]))]
    except (CorruptRecord, DataLost) as error:
        raise CutDeadLetterNotWhole(span=span, whole_bytes=size, found=str(error)) from error
    if not found:
        raise CutDeadLetterNotWhole(span=span, whole_bytes=size, found="Kafka has no record there")
    (record,) = found
    headers = headers_of(record)
    if headers is None or record_hash(record.key(), record.value(), headers) != digest:
        another = "Kafka has another record there: its SHA-256 differs"
        raise CutDeadLetterNotWhole(span=span, whole_bytes=size, found=another)
    return record


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
        headers=headers_of_dead_letter(headers or []),
        timestamp=(
            (TIMESTAMP_CREATE_TIME, timestamp_ms) if is_known else (TIMESTAMP_NOT_AVAILABLE, 0)
        ),
    )
