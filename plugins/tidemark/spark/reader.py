"""The reader: spans become Arrow batches; a plain function of (spans, attempt).

What it records of its spans, their dead letters and reads, is one transaction.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import Message

from tidemark import failpoints
from tidemark.decode import Decoding
from tidemark.kafka.spans import position_after, read_spans
from tidemark.model.batch import DeadLetter, SpanRead, Staging, Stored, Tally
from tidemark.model.dead_letters import Room, size_of
from tidemark.model.offsets import LogPosition, Span, TopicPartition
from tidemark.postgres.session import Connection
from tidemark.spark._postgres import postgres_errors, task_session
from tidemark.spark.record_decoder import RecordDecoder
from tidemark.spark.records import blocks, decode_block, parted, row_schema
from tidemark.staging.copy import copy_dead_letters
from tidemark.staging.tables import record_reads

BUFFER_BYTES = 8 << 20


class Journal(Protocol):
    """Takes the dead letters of a reader's spans as they come, and at last their reads."""

    def reject(self, dead_letters: list[DeadLetter]) -> None:
        """Keep dead letters of spans being read."""

    def complete(self, tallies: Mapping[Span, Tally]) -> None:
        """All spans were read whole: what was kept of them counts."""

    def close(self) -> None:
        """Drop what was kept, if the spans are not complete."""


class StagedJournal:
    """Stages dead letters and reads under one task attempt.

    Its one transaction commits when all spans are complete. Closed or crashed before, it leaves
    nothing.
    """

    def __init__(
        self, parameters: Mapping[str, Any], staging: Staging, member: int, attempt: int
    ) -> None:
        self._parameters = parameters
        self._staging = staging
        self._member = member
        self._attempt = attempt
        self._session = ExitStack()
        self._connection: Connection | None = None
        self._dead_letters: list[DeadLetter] = []
        self._bytes = 0
        self._counts: Counter[tuple[str, int]] = Counter()

    def reject(self, dead_letters: list[DeadLetter]) -> None:
        """Keep dead letters; beyond 8 MiB they go to the open transaction."""
        self._dead_letters += dead_letters
        self._bytes += sum(size_of(one) + len(one.detail) for one in dead_letters)
        self._counts.update((one.topic, one.partition) for one in dead_letters)
        if self._bytes > BUFFER_BYTES:
            with postgres_errors():
                self._flush(self._connected())

    def complete(self, tallies: Mapping[Span, Tally]) -> None:
        """The spans' dead letters and reads are committed, once for this attempt.

        Raises:
            Unreachable: Postgres does not answer.
            StagingLost: the batch was discarded and its tables are gone.
        """
        reads = [self._read(span, tally) for span, tally in tallies.items()]
        with postgres_errors():
            connection = self._connected()
            self._flush(connection)
            with connection.cursor() as cursor:
                recorded = record_reads(cursor, self._staging, reads)
            failpoints.hit("read.staged")
            # A transform may use its source twice: then this attempt has recorded them before.
            connection.commit() if recorded == len(reads) else connection.rollback()

    def close(self) -> None:
        """Roll back what is not complete."""
        self._session.close()

    def _read(self, span: Span, tally: Tally) -> SpanRead:
        return SpanRead(
            span=span,
            member=self._member,
            attempt=self._attempt,
            records=tally.records,
            dead_letters=self._counts[span.topic_partition],
            bytes=tally.bytes,
            read_up_to=tally.read_up_to,
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._session.enter_context(task_session(self._parameters))
        return self._connection

    def _flush(self, connection: Connection) -> None:
        if self._dead_letters:
            with connection.cursor() as cursor:
                copy_dead_letters(
                    cursor, self._staging, self._member, self._attempt, self._dead_letters
                )
        self._dead_letters, self._bytes = [], 0


class CollectedJournal:
    """Hands dead letters to a function and records nothing: for previews and proofs."""

    def __init__(self, collect: Callable[[list[DeadLetter]], None]) -> None:
        self._collect = collect

    def reject(self, dead_letters: list[DeadLetter]) -> None:
        """Hand over dead letters as they come."""
        if dead_letters:
            self._collect(dead_letters)

    def complete(self, tallies: Mapping[Span, Tally]) -> None:
        """Nothing is recorded."""

    def close(self) -> None:
        """Nothing is held."""


Collect = Callable[[list[DeadLetter]], None]


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What a reader needs besides its spans; it travels pickled to the tasks, secrets and all."""

    kafka: Mapping[str, Any] = field(repr=False)
    """librdkafka configuration of the connection."""
    postgres: Mapping[str, Any] = field(repr=False)
    """Where dead letters and reads are staged."""
    decoding: Decoding = field(repr=False)
    """How a record's value is decoded."""
    fields: pa.Schema = field(repr=False)
    """The decoder's columns."""
    metadata: tuple[str, ...]
    """Of key, timestamp and headers: what the transform asked for."""
    member: int
    no_progress_seconds: float = 60.0
    read_up_to: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    """After the last record before each span: with it a log that was rewritten is noticed."""
    staging: Staging | None = None
    """None reads without recording: for previews and proofs."""
    stored: Stored | None = None
    """Where the records are read instead of Kafka."""
    dead_letter_bytes: int | None = None
    """Kept of a dead letter at most; None keeps it whole."""
    max_unpacked: int | None = None
    """Bytes for a compressed batch that needs more than the client takes; see `read_spans`."""
    spans: int = 0
    """Of the batch, among which the room for its dead letters is shared; 0: those that are read."""
    set_aside: frozenset[tuple[str, int, int]] = frozenset()
    """Records that are not decoded, for a proof: their rows came with a replay."""
    leaves_out: bool = False
    """Of the rows that are made of what is read: see `WriteSpec`."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows read."""
        return row_schema(self.fields, self.metadata)


def read(
    spec: ReadSpec, spans: Sequence[Span], attempt: int, collect: Collect | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all good records of the spans, side by side; those of a span in order.

    At the end the spans' dead letters and reads are committed under (member, attempt). A reader
    that is closed early or dies leaves nothing. Without staging nothing is recorded, and `collect`
    is given the dead letters.

    Raises:
        DataLost: Kafka does not hold a needed offset.
        Unreachable: Kafka or Postgres does not answer.
        StagingLost: the batch was discarded meanwhile.
    """
    failpoints.hit("read.before")
    decoder, schema = RecordDecoder(spec.decoding), spec.schema
    tallies = {span: Tally() for span in spans}
    room = Room(spec.dead_letter_bytes, spec.spans or len(spans))
    with closing(_journal(spec, attempt, collect)) as journal:
        for whole in blocks(_tallied(_records(spec, spans), tallies)):
            block, aside = parted(whole, spec.set_aside)
            rows, dead_letters = decode_block(decoder, block, schema)
            journal.reject(room.kept([*dead_letters, *aside]))
            if rows.num_rows:
                yield rows
            failpoints.hit("read.middle")
        journal.complete(tallies)
        failpoints.hit("read.after")


def _records(spec: ReadSpec, spans: Sequence[Span]) -> Iterable[list[Message]]:
    if spec.stored:
        from tidemark.spark.dead_letter_records import (
            read_stored,  # the ledger's ORM: for replays alone
        )

        return read_stored(spec.postgres, spec.kafka, spec.stored, spans)
    return read_spans(
        spec.kafka,
        spans,
        read_up_to=spec.read_up_to,
        no_progress_seconds=spec.no_progress_seconds,
        max_unpacked=spec.max_unpacked,
    )


def _tallied(
    lists: Iterable[list[Message]], tallies: Mapping[Span, Tally]
) -> Iterator[list[Message]]:
    """The same lists, each of one partition; its span's tally counts them."""
    tally_of = {span.topic_partition: tally for span, tally in tallies.items()}
    for records in lists:
        tally = tally_of[TopicPartition(records[0].topic(), records[0].partition())]
        tally.records += len(records)
        tally.bytes += sum(map(len, records))
        tally.read_up_to = position_after(records[-1])
        yield records


def _journal(spec: ReadSpec, attempt: int, collect: Collect | None) -> Journal:
    if spec.staging is None:
        return CollectedJournal(collect or (lambda _: None))
    return StagedJournal(spec.postgres, spec.staging, spec.member, attempt)
