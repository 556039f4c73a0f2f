"""Columns: from what Arrow's JSON reader can read to the declared types, column by column.

The reader knows no dates and no binary, and one bad timestamp fails its whole block. So these
are read as text and converted here: a date is `YYYY-MM-DD`, with a `Z` behind it as Debezium has
it or without; a timestamp is a date, or a date and a time of whole microseconds, in UTC unless it
has an offset; binary is base64, as in Spark.
"""

import re
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode._amount import WIRE
from tidemark.decode._exact import same
from tidemark.decode.port import Reason, Refusal

Rows = Callable[[list[int]], list[int]]
"""From elements of a part of a column to the rows that they are in."""

_LOCAL = r"^[0-9-]{10}([ T][0-9:]+(\.[0-9]{1,6})?)?$"
_ZONED = r"^[0-9-]{10}[ T][0-9:]+(\.[0-9]{1,6})?(Z|[+-][0-9:]+)$"
_DAY_OF_UTC = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})Z$"
_NO_PARTS = r"(\.[0-9]{6})0{1,3}(Z|[+-][0-9:]+)?$"
_FINE = re.compile(r"[0-9-]{10}[ T][0-9:]+\.[0-9]{7}")
_OTHER_YEAR = re.compile(r"-[0-9]{4,}-|[+-]?[0-9]{5,}-|.* BC$", re.IGNORECASE | re.DOTALL)
INSTANT = pa.timestamp("us", "UTC")
_YEARS_1_TO_9999 = {
    pa.date32(): (date.min, date.max),
    INSTANT: (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
}


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to read with, from which `convert` gives the declared one."""
    return pa.schema([pa.field(f.name, _wire(f.type)) for f in schema])


def is_read(text: str, to: pa.DataType) -> bool:
    """Whether a text is a date or a timestamp as `convert` reads them."""
    found = _leaf(pa.array([text]), to)
    return found.null_count == 0 and not _outside(found)


def convert(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, dict[int, Refusal]]:
    """The batch in the declared types, and the rows that could not be converted.

    Those rows are still in the batch, null where they failed.
    """
    bad: dict[int, Refusal] = {}
    columns = [_column(batch.column(i), field, bad) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema), bad


def _wire(of: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(of):
        return pa.struct([pa.field(member.name, _wire(member.type)) for member in of])
    if pa.types.is_list(of):
        return pa.list_(_wire(of.value_type))
    if pa.types.is_decimal(of):
        return WIRE
    is_time = pa.types.is_date(of) or pa.types.is_timestamp(of)
    return pa.string() if is_time or pa.types.is_binary(of) else of


def _column(array: pa.Array, field: pa.Field, bad: dict[int, Refusal]) -> pa.Array:
    if pa.types.is_nested(field.type):
        return _nested(array, field, bad, same)
    return _judged(array, field, bad, same)


def _nested(array: pa.Array, of: pa.Field, bad: dict[int, Refusal], rows_of: Rows) -> pa.Array:
    """The column, or a part of it; `rows_of` tells in which rows its elements are.

    The name of `of` is the path to it, as msgspec writes paths.
    """
    to = of.type
    if pa.types.is_struct(to):
        members = [
            _nested(array.field(i), member.with_name(f"{of.name}.{member.name}"), bad, rows_of)
            for i, member in enumerate(to)
        ]
        return pa.StructArray.from_arrays(members, fields=list(to), mask=array.is_null())
    if pa.types.is_list(to):

        def rows_of_items(items: list[int]) -> list[int]:
            begins = array.offsets.to_pylist()
            return rows_of([bisect_right(begins, item) - 1 for item in items])

        item = pa.field(f"{of.name}[...]", to.value_type)
        items = _nested(array.values, item, bad, rows_of_items)
        return pa.ListArray.from_arrays(array.offsets, items, type=to, mask=array.is_null())
    return _judged(array, of, bad, rows_of)


def _judged(array: pa.Array, of: pa.Field, bad: dict[int, Refusal], rows_of: Rows) -> pa.Array:
    converted = _leaf(array, of.type)
    lost, outside = _lost(array, converted), _outside(converted)
    for at, row in zip(lost, rows_of(lost), strict=True) if lost else ():
        bad.setdefault(row, _unreadable(array[at].as_py(), of))
    for row in rows_of(outside) if outside else ():
        bad.setdefault(row, _out_of_range(of.name))
    return converted


def _lost(array: pa.Array, converted: pa.Array) -> list[int]:
    """The rows that could not be converted."""
    if converted.null_count == array.null_count:
        return []
    lost = pc.and_not(array.is_valid(), converted.is_valid())
    return list(pc.indices_nonzero(lost).to_pylist())


def _unreadable(text: str, of: pa.Field) -> Refusal:
    if _OTHER_YEAR.match(text):
        return _out_of_range(of.name)
    reason = Reason.OUT_OF_RANGE if _FINE.match(text) else Reason.WRONG_TYPE
    return Refusal(reason, f"{text[:50]!r} is no {of.type} - at `$.{of.name}`")


def _instants(texts: pa.Array) -> pa.Array:
    """Instants, null where a text is none.

    Arrow casts texts that all have an offset, or that all have none: apart, few cuts are needed.
    """
    try:
        return texts.cast(INSTANT)
    except pa.ArrowInvalid:
        texts = pc.replace_substring_regex(pc.ascii_upper(texts), _NO_PARTS, r"\1\2")
        texts = pc.replace_substring_regex(texts, _DAY_OF_UTC, r"\1")
        zoned = _cast_rows(_only(_ZONED, texts), INSTANT)
        local = _cast_rows(_only(_LOCAL, texts), pa.timestamp("us"))
        return pc.coalesce(zoned, local.cast(INSTANT))


def _days(texts: pa.Array) -> pa.Array:
    """Days, null where a text is none."""
    try:
        return texts.cast(pa.date32())
    except pa.ArrowInvalid:
        return _cast_rows(pc.replace_substring_regex(texts, _DAY_OF_UTC, r"\1"), pa.date32())


def _only(pattern: str, texts: pa.Array) -> pa.Array:
    matches = pc.match_substring_regex(texts, pattern)
    return pc.if_else(matches, texts, pa.scalar(None, pa.string()))


def _cast_rows(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The array cast, null where it cannot be."""
    parts, todo = list[pa.Array](), [(0, len(array))]
    while todo:
        start, length = todo.pop()
        try:
            parts.append(array.slice(start, length).cast(to))
        except pa.ArrowInvalid:
            half = length // 2
            if half:
                todo += [(start + half, length - half), (start, half)]
            else:
                parts.append(pa.nulls(1, to))
    return pa.concat_arrays(parts)


def _leaf(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The values, null where a text is none."""
    if pa.types.is_binary(to):
        return pa.array([t if t is None else a2b_base64(t) for t in array.to_pylist()], to)
    if pa.types.is_timestamp(to):
        return _instants(array)
    return _days(array) if pa.types.is_date(to) else array.cast(to)


def _out_of_range(name: str) -> Refusal:
    return Refusal(Reason.OUT_OF_RANGE, f"outside of the years 1 to 9999 - at `$.{name}`")


def _outside(array: pa.Array) -> list[int]:
    """The rows outside of the years that Python and Postgres both have."""
    if array.type not in _YEARS_1_TO_9999:
        return []
    first, last = (pa.scalar(bound, array.type) for bound in _YEARS_1_TO_9999[array.type])
    outside = pc.or_(pc.less(array, first), pc.greater(array, last))
    return list(pc.indices_nonzero(outside).to_pylist())
