"""Columns: from what Arrow's JSON reader can read to the declared types, column by column.

The reader knows no dates and no binary, and one bad timestamp fails its whole block. So these
are read as text and converted here: a date is `YYYY-MM-DD`; a timestamp is a date, or a date and
a time of up to microseconds, in UTC unless it has an offset; binary is base64, as in Spark.
"""

import re
from binascii import a2b_base64
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.decode.outcome import Reason, Refusal

_LOCAL = r"^[0-9-]{10}([ T][0-9:]+(\.[0-9]{1,6})?)?$"
_ZONED = r"^[0-9-]{10}[ T][0-9:]+(\.[0-9]{1,6})?(Z|[+-][0-9:]+)$"
_LONG_YEAR = re.compile(r"[+-]?[0-9]{5,}-")
_INSTANT = pa.timestamp("us", "UTC")
_YEARS_1_TO_9999 = {
    pa.date32(): (date.min, date.max),
    _INSTANT: (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
}


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to read with, from which `convert` gives the declared one."""
    return pa.schema([pa.field(f.name, _top_wire(f.type)) for f in schema])


def convert(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, dict[int, Refusal]]:
    """The batch in the declared types, and the rows that could not be converted.

    Those rows are still in the batch, null where they failed.

    Raises:
        Refusal: some row holds a nested value that cannot be converted.
    """
    bad: dict[int, Refusal] = {}
    columns = [_column(batch.column(i), field, bad) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema), bad


def _top_wire(of: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(of) else _wire(of)


def _wire(of: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(of):
        return pa.struct([pa.field(member.name, _wire(member.type)) for member in of])
    if pa.types.is_list(of):
        return pa.list_(_wire(of.value_type))
    return pa.string() if pa.types.is_date(of) or pa.types.is_binary(of) else of


def _column(array: pa.Array, field: pa.Field, bad: dict[int, Refusal]) -> pa.Array:
    if pa.types.is_timestamp(field.type):
        converted = _instants(array)
    elif pa.types.is_date(field.type):
        converted = _cast_rows(array, field.type)
    elif pa.types.is_nested(field.type):
        converted = _nested(array, field.type, field.name)
    else:
        converted = _leaf(array, field.type)
    if converted.null_count > array.null_count:
        for row in pc.indices_nonzero(pc.and_not(array.is_valid(), converted.is_valid())):
            bad.setdefault(row.as_py(), _unreadable(array[row.as_py()].as_py(), field))
    for row in _outside(converted):
        bad.setdefault(row, _out_of_range(field.name))
    return converted


def _unreadable(text: str, field: pa.Field) -> Refusal:
    reason = Reason.OUT_OF_RANGE if _LONG_YEAR.match(text) else Reason.WRONG_TYPE
    return Refusal(reason, f"{text[:50]!r} is no {field.type} - at `$.{field.name}`")


def _instants(texts: pa.Array) -> pa.Array:
    """Instants, null where a text is none.

    Arrow casts texts that all have an offset, or that all have none: apart, few cuts are needed.
    """
    try:
        return texts.cast(_INSTANT)
    except pa.ArrowInvalid:
        zoned = _cast_rows(_only(_ZONED, texts), _INSTANT)
        local = _cast_rows(_only(_LOCAL, texts), pa.timestamp("us"))
        return pc.coalesce(zoned, local.cast(_INSTANT))


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


def _nested(array: pa.Array, to: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_struct(to):
        members = [_nested(array.field(i), member.type, name) for i, member in enumerate(to)]
        return pa.StructArray.from_arrays(members, fields=list(to), mask=array.is_null())
    if pa.types.is_list(to):
        items = _nested(array.values, to.value_type, name)
        return pa.ListArray.from_arrays(array.offsets, items, type=to, mask=array.is_null())
    leaf = _leaf(array, to)
    if _outside(leaf):
        raise _out_of_range(name)
    return leaf


def _leaf(array: pa.Array, to: pa.DataType) -> pa.Array:
    if pa.types.is_binary(to):
        return pa.array([t if t is None else a2b_base64(t) for t in array.to_pylist()], to)
    try:
        return array.cast(to)
    except pa.ArrowInvalid as error:
        raise Refusal(Reason.WRONG_TYPE, str(error)) from error


def _out_of_range(name: str) -> Refusal:
    return Refusal(Reason.OUT_OF_RANGE, f"outside of the years 1 to 9999 - at `$.{name}`")


def _outside(array: pa.Array) -> list[int]:
    """The rows outside of the years that Python and Postgres both have."""
    if array.type not in _YEARS_1_TO_9999:
        return []
    first, last = (pa.scalar(bound, array.type) for bound in _YEARS_1_TO_9999[array.type])
    outside = pc.or_(pc.less(array, first), pc.greater(array, last))
    return list(pc.indices_nonzero(outside).to_pylist())
