"""Rows that were kept as texts, as values of the target's columns again.

The cast is explicit: it cuts a text to `varchar(3)`, rounds to `numeric(10,2)` and drops an offset
from UTC without a word, where somebody has altered the column since. So the values are compared as
texts with what was kept, before any of them is put back.
"""

from collections.abc import Mapping, Sequence

import psycopg2
from psycopg2 import sql

from tidemark.postgres.session import Cursor
from tidemark.staging.catalog import TableColumn
from tidemark.staging.errors import KeptValuesAltered
from tidemark.staging.fit import is_number
from tidemark.staging.refusal import is_refusal

_AS_THEY_ARE = ("text", "character varying")
"""A text of any length is a value of these."""

# OFFSET keeps Postgres from a cast of what is no row, or of another shape.
_ALTERED = sql.SQL("""
SELECT {counts} FROM (
    SELECT u.before FROM {undone} AS u WHERE u.is_row AND u.seq = ANY ({seqs}) OFFSET 0
) AS u
""")
_DIFFER = sql.SQL("count(*) FILTER (WHERE {value}::text IS DISTINCT FROM {text}{but})")
# A number that got more digits has another text; one that is written as no number is, was none.
_BUT_NUMBERS = sql.SQL("""
    AND NOT ({text} ~ '^-?(0([.]|$)|[1-9]|NaN|Inf)' AND {value}::text::numeric = {text}::numeric)
""")


def kept_text(columns: Sequence[str], name: str) -> sql.Composable:
    """A column's text in a row that was kept when the target had these columns."""
    return sql.SQL("u.before[{}]").format(sql.Literal(columns.index(name) + 1))


def value_of(text: sql.Composable, own: TableColumn) -> sql.Composable:
    """The value that the column has of it; in a session with `exact_texts`."""
    return sql.SQL("{}::{}").format(text, sql.SQL(own.type_name))


def refuse_altered(
    cursor: Cursor,
    target: str,
    of_shape: Mapping[str, sql.Composable],
    kept: Sequence[TableColumn],
    texts: Mapping[str, sql.Composable],
) -> None:
    """Refuse to put rows back of which a value would be another one than was kept.

    Raises:
        Refused: names the first such column.
    """
    may_differ = [own for own in kept if own.type_name not in _AS_THEY_ARE]
    for own, rows in _altered(cursor, target, of_shape, may_differ, texts):
        if rows:
            raise KeptValuesAltered(
                target=target, column=own.name, postgres_type=own.type_name, rows=rows
            )


def _altered(
    cursor: Cursor,
    target: str,
    of_shape: Mapping[str, sql.Composable],
    kept: Sequence[TableColumn],
    texts: Mapping[str, sql.Composable],
) -> list[tuple[TableColumn, int]]:
    """In how many rows each of these columns would have another value."""
    if not kept:
        return []
    counts = sql.SQL(", ").join(_differ(texts[own.name], own) for own in kept)
    cursor.execute("SAVEPOINT kept_texts")
    try:
        cursor.execute(_ALTERED.format(**of_shape, counts=counts))
        found = cursor.fetchone() or ()
    except psycopg2.Error as error:
        if not is_refusal(error):
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT kept_texts")
        if len(kept) == 1:
            kind = kept[0].type_name
            # not chained: the server's error quotes the text
            raise KeptValuesAltered(
                target=target, column=kept[0].name, postgres_type=kind, rows=None
            ) from None
        return [one for own in kept for one in _altered(cursor, target, of_shape, [own], texts)]
    cursor.execute("RELEASE SAVEPOINT kept_texts")
    return list(zip(kept, found, strict=True))


def _differ(text: sql.Composable, own: TableColumn) -> sql.Composable:
    value = value_of(text, own)
    but = _BUT_NUMBERS.format(text=text, value=value) if is_number(own.type_name) else sql.SQL("")
    return _DIFFER.format(value=value, text=text, but=but)
