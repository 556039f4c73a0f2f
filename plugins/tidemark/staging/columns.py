"""The columns of rows with their Postgres types; refuses those that Postgres can't hold."""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from tidemark.model.table_name import NAME_BYTES
from tidemark.staging._row_errors import ColumnsTooMany, ColumnsUnwritable
from tidemark.staging.column import BATCH_SEQ, MOST_COLUMNS, TIMESTAMP, TIMESTAMPTZ, Column

_SYSTEM_NAMES = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})
_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.string_view(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.binary_view(): "bytea",
    pa.date32(): "date",
}
_WITHOUT_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns that rows of `schema` have in Postgres, in the same order.

    Raises:
        SchemaMismatch: Postgres can't hold a name or a type; lists all of them, with a remedy. Or
            there are too many columns.
    """
    if len(schema.names) > MOST_COLUMNS:
        raise ColumnsTooMany(columns=len(schema.names), most=MOST_COLUMNS)
    names = tuple(_faults_of_names(schema.names))
    types = tuple((field.name, str(field.type)) for field in schema if not _type_of(field.type))
    if names or types or not schema.names:
        raise ColumnsUnwritable(names=names, types=types)
    return tuple(Column(field.name, _stored(field.type), _type_of(field.type)) for field in schema)


def _faults_of_names(names: list[str]) -> Iterator[tuple[str, str]]:
    for name, times in Counter(names).items():
        fault = _fault_of_name(name) or (f"is there {times} times" if times > 1 else None)
        if fault:
            yield name, fault


def _fault_of_name(name: str) -> str | None:
    if not name or "\0" in name:
        return "is empty or holds a NUL"
    if len(name.encode()) > NAME_BYTES:
        return f"has {len(name.encode())} bytes, Postgres allows {NAME_BYTES}"
    if name == BATCH_SEQ:
        return "is used by Tidemark for the number of a row's batch"
    return "is a system column of Postgres" if name in _SYSTEM_NAMES else None


def _type_of(arrow: pa.DataType) -> str:
    """The Postgres type; empty if there is none."""
    if scalar := _scalar(arrow):
        return scalar
    if _is_list(arrow) and (element := _scalar(arrow.value_type)):
        return f"{element}[]"
    return "jsonb" if _fits_json(arrow) else ""


def _scalar(arrow: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        return TIMESTAMPTZ if arrow.tz else TIMESTAMP
    if pa.types.is_decimal128(arrow):
        return f"numeric({arrow.precision},{arrow.scale})"
    return _PLAIN.get(arrow, "")


def _fits_json(arrow: pa.DataType) -> bool:
    if pa.types.is_struct(arrow):
        names = {field.name for field in arrow}
        return len(names) == arrow.num_fields and all(map(_field_fits_json, arrow))
    if pa.types.is_map(arrow):
        return bool(_scalar(arrow.key_type)) and _fits_json(arrow.item_type)
    if _is_list(arrow):
        return _fits_json(arrow.value_type)
    return pa.types.is_null(arrow) or bool(_scalar(arrow))


def _field_fits_json(field: pa.Field) -> bool:
    # Spark's VARIANT arrives as a struct in its own binary encoding
    return b"variant" not in (field.metadata or {}) and _fits_json(field.type)


def _stored(arrow: pa.DataType) -> pa.DataType:
    """The same values in a type that COPY encodes: texts and bytes as one piece, zones as UTC."""
    if pa.types.is_timestamp(arrow) and arrow.tz:
        return pa.timestamp("us", "UTC")
    if _is_list(arrow) and _scalar(arrow.value_type):
        return pa.list_(_stored(arrow.value_type))
    return _WITHOUT_VIEWS.get(arrow, arrow)


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))
