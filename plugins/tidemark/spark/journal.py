"""What a reader records of a span: its dead letters and its read, in one transaction."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from psycopg2.extensions import connection as Connection

from tidemark import failpoints
from tidemark.model.batch import DeadLetter, SpanRead, Staging, Tally
from tidemark.model.offsets import Span
from tidemark.spark.postgres import connected, postgres_errors
from tidemark.staging.copy import copy_dead_letters
from tidemark.staging.reads import record_read

BUFFER_BYTES = 8 << 20


class Journal(Protocol):
    """Takes the dead letters of one span after another, and the end of each."""

    def reject(self, letters: list[DeadLetter]) -> None:
        """Keep dead letters of the span being read."""

    def complete(self, span: Span, tally: Tally) -> None:
        """The span was read whole: what was kept of it counts."""

    def close(self) -> None:
        """Drop what was kept of a span that is not complete."""


class StagedJournal:
    """Stages dead letters and reads under one task attempt.

    A span's transaction commits when the span is complete. Closed or crashed before, it leaves
    nothing of that span; the spans before it stand.
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
        self._staged = 0

    def reject(self, letters: list[DeadLetter]) -> None:
        """Keep dead letters; beyond 8 MiB they go to the open transaction."""
        self._letters += letters
        self._bytes += sum(map(_size, letters))
        if self._bytes > BUFFER_BYTES:
            with postgres_errors():
                self._flush(self._connected())

    def complete(self, span: Span, tally: Tally) -> None:
        """The span's dead letters and its read are committed, once for this attempt.

        Raises:
            Unreachable: Postgres does not answer.
            StagingLost: the batch was discarded and its tables are gone.
        """
        with postgres_errors():
            connection = self._connected()
            self._flush(connection)
            read = SpanRead(
                span,
                self._member,
                self._attempt,
                tally.records,
                self._staged,
                tally.bytes,
                tally.read_up_to,
            )
            with connection.cursor() as cursor:
                is_first = record_read(cursor, self._staging, read)
            failpoints.hit("read.staged")
            # A transform may use its source twice: then this attempt has recorded the span before.
            connection.commit() if is_first else connection.rollback()
        self._staged = 0

    def close(self) -> None:
        """Roll back what is not complete."""
        if self._connection:
            self._connection.close()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connected(self._parameters)
        return self._connection

    def _flush(self, connection: Connection) -> None:
        if self._letters:
            with connection.cursor() as cursor:
                self._staged += copy_dead_letters(
                    cursor, self._staging, self._member, self._attempt, self._letters
                )
        self._letters, self._bytes = [], 0


class CollectedJournal:
    """Hands dead letters to a function and records nothing: for previews and proofs."""

    def __init__(self, collect: Callable[[list[DeadLetter]], None]) -> None:
        self._collect = collect

    def reject(self, letters: list[DeadLetter]) -> None:
        """Hand over dead letters as they come."""
        if letters:
            self._collect(letters)

    def complete(self, span: Span, tally: Tally) -> None:
        """Nothing is recorded."""

    def close(self) -> None:
        """Nothing is held."""


def _size(letter: DeadLetter) -> int:
    headers = sum(len(key) + len(value or b"") for key, value in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + headers + len(letter.detail)
