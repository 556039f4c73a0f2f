"""What a reader records of its spans: their dead letters and reads, in one transaction."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from psycopg2.extensions import connection as Connection

from tidemark import failpoints
from tidemark.model.batch import DeadLetter, SpanRead, Staging, Tally
from tidemark.model.dead_letters import size_of
from tidemark.model.offsets import Span
from tidemark.spark.postgres import connected, postgres_errors
from tidemark.staging.copy import copy_dead_letters
from tidemark.staging.reads import record_reads

BUFFER_BYTES = 8 << 20


class Journal(Protocol):
    """Takes the dead letters of a reader's spans as they come, and at last their reads."""

    def reject(self, letters: list[DeadLetter]) -> None:
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
        self._connection: Connection | None = None
        self._letters: list[DeadLetter] = []
        self._bytes = 0
        self._counts: Counter[tuple[str, int]] = Counter()

    def reject(self, letters: list[DeadLetter]) -> None:
        """Keep dead letters; beyond 8 MiB they go to the open transaction."""
        self._letters += letters
        self._bytes += sum(size_of(one) + len(one.detail) for one in letters)
        self._counts.update((letter.topic, letter.partition) for letter in letters)
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
        if self._connection:
            self._connection.close()

    def _read(self, span: Span, tally: Tally) -> SpanRead:
        return SpanRead(
            span,
            self._member,
            self._attempt,
            tally.records,
            self._counts[span.topic_partition],
            tally.bytes,
            tally.read_up_to,
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connected(self._parameters)
        return self._connection

    def _flush(self, connection: Connection) -> None:
        if self._letters:
            with connection.cursor() as cursor:
                copy_dead_letters(cursor, self._staging, self._member, self._attempt, self._letters)
        self._letters, self._bytes = [], 0


class CollectedJournal:
    """Hands dead letters to a function and records nothing: for previews and proofs."""

    def __init__(self, collect: Callable[[list[DeadLetter]], None]) -> None:
        self._collect = collect

    def reject(self, letters: list[DeadLetter]) -> None:
        """Hand over dead letters as they come."""
        if letters:
            self._collect(letters)

    def complete(self, tallies: Mapping[Span, Tally]) -> None:
        """Nothing is recorded."""

    def close(self) -> None:
        """Nothing is held."""
