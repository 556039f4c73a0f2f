"""An executor without Spark: reads, stages and reports in the process of the test."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from threading import Event

import psycopg2
import pyarrow as pa
from confluent_kafka import Message

from tidemark.errors import JobFailed
from tidemark.kafka.spans import position_after, read_span
from tidemark.model.batch import Attempt, Batch, DeadLetter, SpanRead
from tidemark.model.offsets import Span
from tidemark.settings.connections import Connection, kafka_config, postgres_parameters
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.copy import copy_dead_letters, copy_rows
from tidemark.staging.tables import record_read

BAD = b"bad"
"""A value that becomes a dead letter."""

SCHEMA = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("value", pa.string()),
    ]
)

Hook = Callable[["LocalExecutor", Batch, Sequence[Span]], None]


def nothing(executor: "LocalExecutor", batch: Batch, spans: Sequence[Span]) -> None:
    """The hook of a test that lets the job alone."""


class LocalExecutor:
    """Runs a batch in this process; hooks let a test step in before and after the job."""

    def __init__(
        self,
        pipeline: Pipeline,
        connections: Mapping[str, Connection],
        member: int,
        *,
        before: Hook = nothing,
        after: Hook = nothing,
        first_attempt: int = 0,
    ) -> None:
        self.kafka = kafka_config(connections[pipeline.kafka.connection])
        self.postgres = postgres_parameters(connections[pipeline.target.connection])
        self.member = member
        self.cancelled = Event()
        self.interrupted = Event()
        self.closed = Event()
        self.drained: list[tuple[Batch, tuple[Span, ...]]] = []
        self._before = before
        self._after = after
        self._attempt = first_attempt

    def output_schema(self) -> pa.Schema:
        return SCHEMA

    def remarks(self) -> tuple[str, ...]:
        return ()

    def drain(self, batch: Batch, spans: Sequence[Span]) -> list[Attempt]:
        self.drained.append((batch, tuple(spans)))
        self.interrupted.clear()
        self._before(self, batch, spans)
        if self.cancelled.is_set() or self.interrupted.is_set():
            raise JobFailed("the job was cancelled")
        attempt, self._attempt = self._attempt, self._attempt + 1
        with closing(psycopg2.connect(**self.postgres)) as connection:
            rows = copy_rows(
                connection,
                batch.staging,
                self._rows(connection, batch, spans, attempt),
                SCHEMA,
                member=self.member,
                attempt=attempt,
            )
        self._after(self, batch, spans)
        return [Attempt(self.member, attempt, rows)]

    def cancel(self) -> None:
        self.cancelled.set()

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        self.closed.set()

    def _rows(
        self, _: object, batch: Batch, spans: Sequence[Span], attempt: int
    ) -> Iterator[pa.RecordBatch]:
        with closing(psycopg2.connect(**self.postgres)) as connection:
            for span in spans:
                records = [r for some in self._read(batch, span) for r in some]
                good = [record for record in records if record.value() != BAD]
                letters = [dead_letter(record) for record in records if record.value() == BAD]
                if good:
                    yield row_batch(good)
                with connection, connection.cursor() as cursor:
                    copy_dead_letters(cursor, batch.staging, self.member, attempt, letters)
                    read = SpanRead(
                        span,
                        self.member,
                        attempt,
                        len(records),
                        len(letters),
                        sum(map(len, records)),
                        position_after(records[-1]) if records else None,
                    )
                    record_read(cursor, batch.staging, read)

    def _read(self, batch: Batch, span: Span) -> Iterator[list[Message]]:
        return read_span(self.kafka, span, read_up_to=batch.read_up_to.get(span.topic_partition))


def row_batch(records: Sequence[Message]) -> pa.RecordBatch:
    """Coordinates and value of each record."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "kafka_topic": record.topic(),
                "kafka_partition": record.partition(),
                "kafka_offset": record.offset(),
                "value": record.value().decode(),
            }
            for record in records
        ],
        schema=SCHEMA,
    )


def dead_letter(record: Message) -> DeadLetter:
    """The record as a dead letter."""
    where = (record.topic(), record.partition(), record.offset(), record.timestamp()[1])
    return DeadLetter(*where, record.key(), record.value(), (), "INVALID_JSON", "a test said so")
