"""What a published batch sends: rows of the target, or what the outbox keeps of an upsert.

Rows are JSON objects, made by Postgres: a text of the columns' names and values, nulls included.
Tidemark reads each value back as it was:

  numeric            a text with all digits, for most readers take numbers as floats
  bytea              base64
  date, timestamps   ISO 8601; with a zone in UTC
  NaN and infinity   texts: JSON has no such numbers
  json, jsonb        as they are
  arrays             lists

The outbox keeps what a batch of an upsert sends until it is read back as sent. The next batch may
change a row, so rows can't be read from the target later. Publish keeps of each key that it changed
the row as it is then, or that the key is deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from psycopg2 import sql

from tidemark.model.output import OutputRecord, Unsent
from tidemark.postgres.session import Cursor, exact_texts, query
from tidemark.staging.catalog import TableColumn, find_columns
from tidemark.staging.column import BATCH_SEQ, COORDINATES
from tidemark.staging.errors import OutputKeyMissing, RowsToSendDiffer
from tidemark.staging.target import Target

_OBJECT = sql.SQL("(SELECT row_to_json(o.*) FROM (SELECT {columns}) AS o)::text")
_TEXTS = {
    "numeric": sql.SQL("{}::text"),
    "bytea": sql.SQL("translate(encode({}, 'base64'), E'\\n', '')"),
}
"""How a value of these types becomes a text that says all of it."""
_EACH = sql.SQL(
    "CASE WHEN {array} IS NOT NULL THEN ARRAY(SELECT {text} FROM unnest({array}) AS e) END"
)


def json_object(of: str, columns: Sequence[TableColumn]) -> sql.Composed:
    """The text of an object of these columns of a row; in a session with `exact_texts`."""
    parts = (
        sql.SQL("{} AS {}").format(_value(of, column), sql.Identifier(column.name))
        for column in columns
    )
    return _OBJECT.format(columns=sql.SQL(", ").join(parts))


def _value(of: str, column: TableColumn) -> sql.Composable:
    """The column's value as `row_to_json` has to take it."""
    name = sql.Identifier(of, column.name)
    kind, is_array = column.type_name.removesuffix("[]"), column.type_name.endswith("[]")
    text = _TEXTS.get(kind.partition("(")[0])
    if text is None:
        return name
    if is_array:
        return _EACH.format(array=name, text=text.format(sql.Identifier("e")))
    return text.format(name)


FETCHED = 2000
"""Rows that are asked for at once."""

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
        own = {column.name: column for column in columns if column.name != BATCH_SEQ}
        if missing := tuple(name for name in self.key if name not in own):
            raise OutputKeyMissing(target=str(self.target), missing=missing)
        # rows that have coordinates are sent in their order
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


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What the outbox keeps of the changes of a target whose rows are upserted."""

    target: Target

    def declare(self, cursor: Cursor, region: str, seq: int) -> bool:
        """Open the cursor on what is kept of the batch."""
        statement = _CURSOR.format(sql.SQL(query("kept_records")))
        values = {"region": region, "seq": seq, "target": self.target.name}
        cursor.execute(statement, values)
        return True


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
            region=region, seq=batch.seq, target=str(rows.target), published=batch.rows, found=found
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


_KEEP = sql.SQL("""
INSERT INTO tidemark.outbox (region, seq, target, number, key, value)
SELECT {region}, {seq}, {name},
       row_number() OVER (ORDER BY l.kafka_topic, l.kafka_partition, l.kafka_offset,
                                   NOT l."tidemark deleted"),
       {key}, CASE WHEN NOT l."tidemark deleted" THEN {value} END
FROM {last} AS l LEFT JOIN {target} AS t ON {match}
""")


def keep_statement(
    names: Mapping[str, sql.Composable], columns: Sequence[TableColumn], key: Sequence[str]
) -> sql.Composed:
    """Keep what the batch has changed; `names` are those of the upsert, `columns` the target's."""
    by_name = {column.name: column for column in columns}
    value = json_object("t", [column for column in columns if column.name != BATCH_SEQ])
    key_object = json_object("l", [by_name[name] for name in key])
    return _KEEP.format(**{**names, "key": key_object, "value": value})
