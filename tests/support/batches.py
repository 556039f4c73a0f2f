"""Batches with staging tables of their own, without a region: what readers and writers need."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from tidemark.decode import Decoding
from tidemark.model.batch import Attempt, Batch, PlannedSpan
from tidemark.model.offsets import Span
from tidemark.postgres.session import Cursor
from tidemark.settings.fields import arrow_schema
from tidemark.spark.reader import ReadSpec
from tidemark.staging import tables
from tidemark.staging.columns import columns_of

MEMBER = 7
FIELDS = arrow_schema({"n": "bigint", "text": "string"})

Drained = tuple[Batch, list[Attempt]]
Run = Callable[..., Drained]
"""Drains a batch with this transform, and for these targets if there are several."""

_seqs = itertools.count(1)


def document(number: int) -> bytes:
    """A good record's value: {"n": number}."""
    return json.dumps({"n": number, "text": f"record {number}"}).encode()


def documents(count: int, start: int = 0) -> list[bytes]:
    """Good values that tell records apart."""
    return [document(number) for number in range(start, start + count)]


@dataclass
class Batches:
    """A database with staging tables, and a broker to read from."""

    kafka: str
    warehouse: dict[str, Any]

    def spec(
        self, *metadata: str, format: str = "json", fields: pa.Schema = FIELDS, **changes: Any
    ) -> ReadSpec:
        """How records of `document` are read; nothing is recorded until a batch is named."""
        settings: dict[str, Any] = {"no_progress_seconds": 20.0, **changes}
        kafka = {"bootstrap.servers": self.kafka}
        decoding = Decoding(format, fields, takes_null="tombstone" in metadata)
        return ReadSpec(kafka, self.warehouse, decoding, fields, metadata, MEMBER, **settings)

    def new(self, spans: Sequence[Span], rows: Mapping[str, pa.Schema]) -> Batch:
        """A batch whose staging tables hold rows of these schemas, by target."""
        batch = Batch("r", 1, next(_seqs), tuple(PlannedSpan(span, "id") for span in spans))
        with self._cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS tidemark_staging")
            for name, schema in rows.items():
                tables.create(cursor, batch.staging.of_target(name), columns_of(schema))
        return batch

    def reads(self, batch: Batch) -> list[tuple[Any, ...]]:
        """(partition, start, end, attempt, records, dead letters) of every read recorded."""
        return self._all(
            batch.staging.reads,
            "partition, start_offset, end_offset, attempt, records, dead_letters",
        )

    def dead_letters(self, batch: Batch) -> list[tuple[Any, ...]]:
        """(partition, offset, attempt, reason) of every dead letter staged."""
        return self._all(batch.staging.dead_letters, 'partition, "offset", attempt, reason')

    def recording(self, spec: ReadSpec, batch: Batch) -> ReadSpec:
        """The same, and what is read is recorded in the batch's staging tables."""
        return replace(spec, staging=batch.staging)

    def whole_dead_letters(self, batch: Batch) -> list[tuple[Any, ...]]:
        """(offset, key, value, headers, reason, detail) of every dead letter staged."""
        return self._all(
            batch.staging.dead_letters, '"offset", key, value, headers, reason, detail'
        )

    def numbers(self, batch: Batch, winners: Sequence[Attempt]) -> list[int]:
        """The column n of the rows that the winners staged."""
        wanted = {winner.key for winner in winners}
        staged = self._all(batch.staging.rows, "n, member, attempt")
        return [n for n, *writer in staged if tuple(writer) in wanted]

    def staged(self, batch: Batch, columns: str) -> list[tuple[Any, ...]]:
        """These columns of all staged rows, in order of the first two."""
        return self._all(batch.staging.rows, columns)

    def attempts(self, batch: Batch) -> set[int]:
        """Every attempt that has staged rows, winner or not."""
        return {attempt for attempt, _ in self._all(batch.staging.rows, "attempt, member")}

    def drop(self, batch: Batch) -> None:
        """Drop the staging tables, as a discard does."""
        with self._cursor() as cursor:
            assert tables.drop(cursor, batch.staging)

    def _all(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        query = sql.SQL(f"SELECT {columns} FROM {{}} ORDER BY 1, 2").format(
            sql.Identifier("tidemark_staging", table)
        )
        with self._cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        with (
            closing(psycopg2.connect(**self.warehouse)) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            yield cursor
