"""The rows of a published batch as records for an output topic: JSON, made by Postgres.

A record's value is an object of all columns but `batch_seq`, nulls included; its key is an object
of the key's columns. Tidemark reads each back as it was:

  numeric            a text with all digits, for most readers take numbers as floats
  bytea              base64
  date, timestamps   ISO 8601; with a zone in UTC
  NaN and infinity   texts: JSON has no such numbers
  json, jsonb        as they are
  arrays             lists
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from tidemark.errors import Refused
from tidemark.model.output import OutputRecord, Unsent
from tidemark.staging.catalog import TableColumn, find_columns
from tidemark.staging.column import BATCH_SEQ
from tidemark.staging.target import Target
from tidemark.staging.upsert_names import exact_texts

FETCHED = 2000
"""Rows that are asked for at once."""

COORDINATES = ("kafka_topic", "kafka_partition", "kafka_offset")
"""Rows that have them are sent in their order."""

_ROWS = sql.SQL("""
DECLARE "tidemark output" NO SCROLL CURSOR FOR
SELECT {key}, {value} FROM {target} AS t WHERE t.{batch_seq} = {seq} {order}
""")
_OBJECT = sql.SQL("row_to_json((SELECT o FROM (SELECT {columns}) AS o))::text")
_TEXTS = {
    "numeric": sql.SQL("{}::text"),
    "bytea": sql.SQL("translate(encode({}, 'base64'), E'\\n', '')"),
}
"""How a value of these types becomes a text that says all of it."""
_EACH = sql.SQL(
    "CASE WHEN {array} IS NOT NULL THEN ARRAY(SELECT {text} FROM unnest({array}) AS e) END"
)


@dataclass(frozen=True, slots=True)
class OutputRows:
    """The rows of a target, by batch."""

    target: Target
    key: Sequence[str] = ()

    def records(self, cursor: Cursor, region: str, batch: Unsent) -> Iterator[OutputRecord]:
        """One record a row; those of one record of the source in order, where rows tell it.

        Raises:
            Refused: the table does not hold as many rows of the batch as were published, or it
                lacks a column of the key.
        """
        exact_texts(cursor)
        headers = headers_of(region, batch)
        found = 0
        for key, value in self._rows(cursor, batch.seq):
            found += 1
            yield OutputRecord(_encoded(key), value.encode(), headers)
        if found != batch.records:
            raise self._changed(region, batch, found)

    def _rows(self, cursor: Cursor, seq: int) -> Iterator[tuple[str | None, str]]:
        columns = find_columns(cursor, self.target.schema, self.target.table)
        if not columns:
            return
        cursor.execute(self.statement(columns, seq))
        while True:
            cursor.execute('FETCH %s FROM "tidemark output"', (FETCHED,))
            rows = cursor.fetchall()
            yield from rows
            if len(rows) < FETCHED:
                break
        cursor.execute('CLOSE "tidemark output"')

    def statement(self, columns: Sequence[TableColumn], seq: int) -> sql.Composed:
        """Ask for the records of a batch; literals, for with parameters a % were a placeholder."""
        self.refuse_missing(columns)
        own = [column for column in columns if column.name != BATCH_SEQ]
        by_name = {column.name: column for column in own}
        ordered = [name for name in COORDINATES if name in by_name]
        order = sql.SQL(", ").join(sql.Identifier("t", name) for name in ordered)
        return _ROWS.format(
            key=_object([by_name[name] for name in self.key]) if self.key else sql.SQL("NULL"),
            value=_object(own),
            target=self.target.identifier,
            batch_seq=sql.Identifier(BATCH_SEQ),
            seq=sql.Literal(seq),
            order=sql.SQL("ORDER BY {}").format(order) if ordered else sql.SQL(""),
        )

    def refuse_missing(self, columns: Sequence[TableColumn]) -> None:
        """Refuse a table without the key's columns.

        Raises:
            Refused: names those that are missing.
        """
        missing = [name for name in self.key if name not in {one.name for one in columns}]
        if missing:
            raise Refused(
                f"{self.target} has no column {', '.join(missing)}, which output.key names: correct"
                " it, or let the transform return the column"
            )

    def _changed(self, region: str, batch: Unsent, found: int) -> Refused:
        return Refused(
            f"region {region}: {self.target} holds {found} rows of batch {batch.seq}, the ledger"
            f" published {batch.records}: somebody else deleted or inserted rows, or made the table"
            " anew. Nothing of the batch was sent. `tidemark verify` names the rows: correct them,"
            " or rewind to the checkpoint before"
        )


def headers_of(region: str, batch: Unsent) -> tuple[tuple[str, bytes], ...]:
    """What each record of the batch bears."""
    named = {"region": region, "seq": str(batch.seq), "epoch": str(batch.epoch)}
    return tuple((name, text.encode()) for name, text in named.items())


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _object(columns: Sequence[TableColumn]) -> sql.Composed:
    parts = (
        sql.SQL("{} AS {}").format(_value(column), sql.Identifier(column.name))
        for column in columns
    )
    return _OBJECT.format(columns=sql.SQL(", ").join(parts))


def _value(column: TableColumn) -> sql.Composable:
    """The column's value as JSON takes it."""
    name = sql.Identifier("t", column.name)
    kind, is_array = column.type_name.removesuffix("[]"), column.type_name.endswith("[]")
    text = _TEXTS.get(kind.partition("(")[0])
    if text is None:
        return name
    if is_array:
        return _EACH.format(array=name, text=text.format(sql.Identifier("e")))
    return text.format(name)
