"""Whatever a DataFrame holds reads back equal from the target."""

import datetime as dt
import json
import math
from base64 import b64encode
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg2 import sql
from tests.support.flights_table import Parameters, emptied
from tests.support.only import copy_only

from tidemark.model.batch import Staging
from tidemark.postgres.session import Connection
from tidemark.staging import tables
from tidemark.staging.columns import columns_of
from tidemark.staging.move import move_rows
from tidemark.staging.target import Target, ensure

Typed = tuple[pa.DataType, st.SearchStrategy[Any]]
STAGING = Staging.of("any", 1)
TARGET = Target("public", "anything")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EXACT = Context(prec=80)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TAKEN = {"batch_seq", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}
NAMES = (TEXT | st.sampled_from(["member", "attempt", "a%b", "%s", 'q"', "select"])).filter(
    lambda name: 0 < len(name.encode()) < 64 and name not in TAKEN
)
# 4714-11-24 BC to 294247-01-01, all that Postgres has
DAYS = st.integers(-2_440_588, 2_145_031_948)
MICROSECONDS = st.integers(-210_866_803_200_000_000, 9_223_371_331_199_999_999)
ODD_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, -0.0])
SCALARS: list[Typed] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32) | ODD_FLOATS),
    (pa.float64(), st.floats() | ODD_FLOATS),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), st.binary(max_size=12)),
    (pa.large_binary(), st.binary(max_size=12)),
    (pa.string_view(), TEXT),
    (pa.binary_view(), st.binary(max_size=12)),
    (pa.date32(), DAYS),
    (pa.timestamp("us", "UTC"), MICROSECONDS),
    (pa.timestamp("us", "America/Lima"), MICROSECONDS),
    (pa.timestamp("us"), MICROSECONDS),
]
# in JSON the calendar ends where Python's does
IN_JSON: list[Typed] = [
    *SCALARS[:13],
    (pa.date32(), st.integers(-719_162, 2_932_896)),
    (pa.timestamp("us", "UTC"), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)),
]


@st.composite
def decimals(draw: st.DrawFn) -> Typed:
    scale = draw(st.integers(-10, 38))
    # Arrow takes a Decimal only if its digits, zeros before the point too, are at most 38
    precision = draw(st.integers(max(1, scale), 38 + min(scale, 0)))
    most = 10**precision - 1
    return pa.decimal128(precision, scale), st.integers(-most, most).map(
        lambda n: Decimal(n).scaleb(-scale, EXACT)
    )


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def list_of(of: Typed) -> Typed:
    return pa.list_(of[0]), st.lists(or_null(of[1]), max_size=3)


def map_of(of: Typed) -> Typed:
    items = st.dictionaries(TEXT, or_null(of[1]), max_size=3).map(lambda d: list(d.items()))
    return pa.map_(pa.string(), of[0]), items


@st.composite
def struct_of(draw: st.DrawFn, of: st.SearchStrategy[Typed]) -> Typed:
    fields = draw(st.dictionaries(TEXT, of, min_size=1, max_size=3))
    kind = pa.struct([(name, field[0]) for name, field in fields.items()])
    return kind, st.fixed_dictionaries({name: or_null(field[1]) for name, field in fields.items()})


SCALAR = st.sampled_from(SCALARS) | decimals()
INNER = st.sampled_from(IN_JSON) | decimals()
NESTED = st.recursive(INNER, lambda of: of.map(list_of) | of.map(map_of) | struct_of(of)).filter(
    lambda typed: (
        pa.types.is_nested(typed[0]) and columns_of(pa.schema([("x", typed[0])]))[0].is_json
    )
)
FAMILIES = {
    "scalars": SCALAR | st.just((pa.null(), st.none())),
    "arrays": SCALAR.map(list_of),
    "documents": NESTED,
}


@st.composite
def row_groups(draw: st.DrawFn, family: str) -> tuple[pa.Schema, list[list[Any]]]:
    """A schema, and its columns of values."""
    fields = draw(st.dictionaries(NAMES, FAMILIES[family], min_size=1, max_size=5))
    rows = draw(st.integers(1, 5))
    schema = pa.schema([(name, kind) for name, (kind, _) in fields.items()])
    values = [st.lists(or_null(of), min_size=rows, max_size=rows) for _, of in fields.values()]
    return schema, [draw(column) for column in values]


@pytest.fixture(scope="module")
def connection(database: Parameters) -> Iterator[Connection]:
    yield from emptied(database)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
def test_what_is_written_reads_back_equal(
    connection: Connection, family: str, data: st.DataObject
) -> None:
    schema, values = data.draw(row_groups(family))
    cut = data.draw(st.integers(0, 5))
    arrays = [pa.array(cells, kind) for cells, kind in zip(values, schema.types, strict=True)]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    columns = columns_of(schema)
    connection.rollback()  # what an example that failed has left
    with connection, connection.cursor() as cursor:
        tables.drop(cursor, STAGING)
        tables.create(cursor, STAGING, columns)
    batches = iter([whole.slice(0, cut), whole.slice(cut)])
    assert copy_only(connection, STAGING, batches, schema, member=1, attempt=1) == len(whole)
    with connection.cursor() as cursor:
        ensure(cursor, TARGET, columns)
        assert move_rows(cursor, STAGING, TARGET, columns, 1, [(1, 1)]) == len(whole)
        for field, cells in zip(schema, values, strict=True):
            cursor.execute(selection(field))
            found = [read(field.type, cell) for (cell,) in cursor.fetchall()]
            assert found == [expected(field.type, cell) for cell in cells]


def selection(field: pa.Field) -> sql.Composable:
    """The column in an exact form: days and microseconds instead of Python's narrower dates."""
    column, table = sql.Identifier(field.name), TARGET.identifier
    if pa.types.is_list(field.type) and not is_json(field.type):
        form = (
            "CASE WHEN {0} IS NOT NULL THEN ARRAY(SELECT "
            + exact_form(field.type.value_type).replace("{0}", "element")
            + " FROM unnest({0}) WITH ORDINALITY AS u (element, place) ORDER BY place) END"
        )
    else:
        form = exact_form(field.type)
    return sql.SQL(f"SELECT {form} FROM {{1}}").format(column, table)


def exact_form(kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return "{0} - date '1970-01-01'"
    if pa.types.is_timestamp(kind):
        return "(extract(epoch FROM {0}) * 1000000)::bigint"
    if pa.types.is_floating(kind):
        return "{0}::float8"
    return "{0}::text" if is_json(kind) else "{0}"


def is_json(kind: pa.DataType) -> bool:
    return columns_of(pa.schema([("x", kind)]))[0].is_json


def read(kind: pa.DataType, cell: Any) -> Any:
    """A cell that psycopg2 gave, in a form that `==` compares exactly."""
    if is_json(kind) and cell is not None:
        return json.loads(cell, parse_float=Decimal, parse_int=Decimal)
    return comparable(cell)


def comparable(value: Any) -> Any:
    match value:
        case list():
            return [comparable(one) for one in value]
        case float():
            return repr(value)  # tells -0.0 from 0.0, and NaN equals NaN
        case memoryview():
            return bytes(value)
    return value


def expected(kind: pa.DataType, value: Any) -> Any:
    return as_json(kind, value) if is_json(kind) else comparable(value)


def as_json(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {name: as_json(kind.field(name).type, one) for name, one in value.items()}
    if pa.types.is_map(kind):
        return {name: as_json(kind.item_type, one) for name, one in value}
    if pa.types.is_list(kind):
        return [as_json(kind.value_type, one) for one in value]
    return scalar_as_json(kind, value)


def scalar_as_json(kind: pa.DataType, value: Any) -> Any:
    if pa.types.is_date(kind):
        return (EPOCH + dt.timedelta(days=value)).date().isoformat()
    if pa.types.is_timestamp(kind):
        return (EPOCH + dt.timedelta(microseconds=value)).isoformat().replace("+00:00", "Z")
    match value:
        case bytes():
            return b64encode(value).decode()
        case bool() | str():
            return value
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
