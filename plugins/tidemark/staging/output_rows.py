"""What a published batch sends: rows of the target, or what the outbox keeps of an upsert."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.model.output import OutputRecord, Unsent
from tidemark.postgres.session import query
from tidemark.staging.catalog import TableColumn, find_columns
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.errors import OutputKeyMissing, RowsToSendDiffer
from tidemark.staging.output_json import json_object
from tidemark.staging.target import Target
from tidemark.staging.upsert_names import exact_texts

FETCHED = 2000
"""Rows that are asked for at once."""

COORDINATES = ("kafka_topic", "kafka_partition", "kafka_offset")
"""Rows that have them are sent in their order."""

Pair = tuple[str | None, str | None]
"""A record's key and value as texts."""

_CURSOR = sql.SQL('DECLARE "tidemark output" NO SCROLL CURSOR FOR {}')
_ROWS = sql.SQL("""
SELECT {key}, {value} FROM {target} AS t WHERE t.{batch_seq} = {seq} {order}
""")


_TRIED = sql.SQL("SELECT {value} FROM {target} AS t LIMIT 0")


def try_rows(cursor: Cursor, target: Target) -> None:
    """Make objects of no rows: what Postgres has against the table's columns, it says before a run.

    A table that is not there yet will have the columns of the rows.
    """
    columns = find_columns(cursor, target.schema, target.table)
    if columns:
        value = json_object("t", [one for one in columns if one.name != BATCH_SEQ])
        cursor.execute(_TRIED.format(value=value, target=target.identifier))


class OutputRows(Protocol):
    """Where the records of a batch come from."""

    @property
    def target(self) -> Target:
        """The table whose rows are sent."""

    def declare(self, cursor: Cursor, region: str, seq: int) -> bool:
        """Open the cursor "tidemark output" on keys and values; False if there is no table."""


@dataclass(frozen=True, slots=True)
class TargetRows:
    """The rows of a target that only grows: each stays as its batch wrote it."""

    target: Target
    key: Sequence[str] = ()

    def declare(self, cursor: Cursor, region: str, seq: int) -> bool:
        """Open the cursor on the rows of the batch.

        Raises:
            Refused: the table lacks a column of the key.
        """
        columns = find_columns(cursor, self.target.schema, self.target.table)
        if columns:
            exact_texts(cursor)
            cursor.execute(_CURSOR.format(self._statement(columns, seq)))
        return bool(columns)

    def _statement(self, columns: Sequence[TableColumn], seq: int) -> sql.Composed:
        """With literals: if there are parameters, psycopg2 reads a % in a name as a placeholder."""
        self._refuse_missing(columns)
        own = {column.name: column for column in columns if column.name != BATCH_SEQ}
        ordered = [sql.Identifier("t", name) for name in COORDINATES if name in own]
        order = sql.SQL("ORDER BY {}").format(sql.SQL(", ").join(ordered))
        key = json_object("t", [own[name] for name in self.key])
        return _ROWS.format(
            key=key if self.key else sql.SQL("NULL"),
            value=json_object("t", list(own.values())),
            target=self.target.identifier,
            batch_seq=sql.Identifier(BATCH_SEQ),
            seq=sql.Literal(seq),
            order=order if ordered else sql.SQL(""),
        )

    def _refuse_missing(self, columns: Sequence[TableColumn]) -> None:
        missing = [name for name in self.key if name not in {one.name for one in columns}]
        if missing:
            raise OutputKeyMissing(target=str(self.target), missing=tuple(missing))


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What the outbox keeps of the changes of a target whose rows are upserted."""

    target: Target

    def declare(self, cursor: Cursor, region: str, seq: int) -> bool:
        """Open the cursor on what is kept of the batch."""
        statement = _CURSOR.format(sql.SQL(_kept_records()))
        values = {"region": region, "seq": seq, "target": self.target.name}
        cursor.execute(statement, values)
        return True


def _kept_records() -> str:
    return query("kept_records")


def records_of(
    rows: OutputRows, cursor: Cursor, region: str, batch: Unsent, topic: str
) -> Iterator[OutputRecord]:
    """The records of a batch's rows with its headers.

    Raises:
        Refused: they are not as many as were published; or see `declare`.
    """
    headers, found = batch.headers(region), 0
    for key, value in _fetched(cursor) if rows.declare(cursor, region, batch.seq) else ():
        found += 1
        yield OutputRecord(topic, _encoded(key), _encoded(value), headers)
    if found != batch.rows:
        raise RowsToSendDiffer(
            region=region,
            seq=batch.seq,
            target=str(rows.target),
            published=batch.rows,
            found=found,
        )


def _fetched(cursor: Cursor) -> Iterator[Pair]:
    while True:
        cursor.execute('FETCH %s FROM "tidemark output"', (FETCHED,))
        rows = cursor.fetchall()
        yield from rows
        if len(rows) < FETCHED:
            break
    cursor.execute('CLOSE "tidemark output"')


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
