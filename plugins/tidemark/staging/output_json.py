"""Rows as JSON objects, made by Postgres: a text of the columns' names and values, nulls included.

Tidemark reads each value back as it was:

  numeric            a text with all digits, for most readers take numbers as floats
  bytea              base64
  date, timestamps   ISO 8601; with a zone in UTC
  NaN and infinity   texts: JSON has no such numbers
  json, jsonb        as they are
  arrays             lists
"""

from collections.abc import Sequence

from psycopg2 import sql

from tidemark.staging.catalog import TableColumn

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
