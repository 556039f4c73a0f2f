"""Arrow columns as Postgres holds them, and what is refused before any batch."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from tidemark.staging._json_texts import json_text
from tidemark.staging._row_errors import ColumnsTooMany, ColumnsUnwritable
from tidemark.staging.column import MOST_COLUMNS, too_wide
from tidemark.staging.columns import columns_of

UTC = "timestamp with time zone"


@pytest.mark.parametrize(
    ("arrow", "postgres"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "smallint"),
        (pa.int16(), "smallint"),
        (pa.int32(), "integer"),
        (pa.int64(), "bigint"),
        (pa.float32(), "real"),
        (pa.float64(), "double precision"),
        (pa.string(), "text"),
        (pa.large_string(), "text"),
        (pa.string_view(), "text"),
        (pa.binary(), "bytea"),
        (pa.large_binary(), "bytea"),
        (pa.binary_view(), "bytea"),
        (pa.date32(), "date"),
        (pa.timestamp("us", "UTC"), UTC),
        (pa.timestamp("us", "Europe/Berlin"), UTC),
        (pa.timestamp("us"), "timestamp without time zone"),
        (pa.decimal128(10, 2), "numeric(10,2)"),
        (pa.decimal128(5, -2), "numeric(5,-2)"),
        (pa.list_(pa.int32()), "integer[]"),
        (pa.large_list(pa.string()), "text[]"),
        (pa.large_list(pa.string_view()), "text[]"),
        (pa.list_(pa.timestamp("us", "UTC")), f"{UTC}[]"),
        (pa.list_(pa.list_(pa.int32())), "jsonb"),
        (pa.list_(pa.struct([("a", pa.int32())])), "jsonb"),
        (pa.struct([("a", pa.list_(pa.string()))]), "jsonb"),
        (pa.struct([("a", pa.string_view())]), "jsonb"),
        (pa.map_(pa.int32(), pa.binary()), "jsonb"),
        (pa.null(), "jsonb"),
    ],
)
def test_an_arrow_type_has_one_postgres_type(arrow: pa.DataType, postgres: str) -> None:
    (column,) = columns_of(pa.schema([("x", arrow)]))
    assert column.postgres_type == postgres


@pytest.mark.parametrize(
    "arrow",
    [
        pa.timestamp("ns", "UTC"),
        pa.timestamp("ms"),
        pa.time64("us"),
        pa.date64(),
        pa.float16(),
        pa.binary(4),
        pa.list_(pa.int32(), 4),
        pa.list_view(pa.int32()),
        pa.run_end_encoded(pa.int32(), pa.int32()),
        pa.uuid(),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.uint64(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.list_(pa.duration("us")),
        pa.struct([("a", pa.uint8())]),
        pa.struct([("a", pa.int32()), ("a", pa.int32())]),
        pa.map_(pa.struct([("a", pa.int32())]), pa.int32()),
        pa.struct([pa.field("value", pa.binary(), metadata={"variant": "true"})]),
    ],
)
def test_a_type_without_counterpart_is_refused_by_column_and_type(arrow: pa.DataType) -> None:
    with pytest.raises(ColumnsUnwritable) as refusal:
        columns_of(pa.schema([("fine", pa.int32()), ("odd", arrow)]))
    assert (refusal.value.names, refusal.value.types) == ((), (("odd", str(arrow)),))


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("batch_seq", "is used by Tidemark"),
        ("ctid", "system column"),
        ("", "is empty"),
        ("a\0b", "NUL"),
        ("ü" * 32, "has 64 bytes"),
    ],
)
def test_a_name_that_no_table_can_hold_is_refused(name: str, fact: str) -> None:
    with pytest.raises(ColumnsUnwritable) as refusal:
        columns_of(pa.schema([(name, pa.int32())]))
    [(refused, fault)] = refusal.value.names
    assert (refused, fact in fault) == (name, True)


def test_every_fault_of_a_schema_is_told_at_once() -> None:
    schema = pa.schema(
        [("a", pa.int32()), ("a", pa.int32()), ("b", pa.uint8()), ("xmin", pa.int8())]
    )
    with pytest.raises(ColumnsUnwritable) as refusal:
        columns_of(schema)
    assert [name for name, _ in refusal.value.names] == ["a", "xmin"]
    assert [name for name, _ in refusal.value.types] == ["b"]
    assert len(str(refusal.value).splitlines()) == 4


def test_a_dataframe_without_columns_is_refused() -> None:
    with pytest.raises(ColumnsUnwritable) as refusal:
        columns_of(pa.schema([]))
    assert (refusal.value.names, refusal.value.types) == ((), ())


def test_columns_named_like_the_staging_keys_get_another_name_there() -> None:
    names = [
        c.staged_name for c in columns_of(pa.schema([("member", pa.int8()), ("x", pa.int8())]))
    ]
    assert names == ["member (data)", "x"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
            {"a": None, "b": "é"},
            {"a": None, "b": "é"},
        ),
        (pa.struct([("f", pa.float64())]), {"f": float("nan")}, {"f": "NaN"}),
        (pa.list_(pa.list_(pa.float64())), [[float("-inf"), None]], [["-Infinity", None]]),
        (pa.map_(pa.string(), pa.float32()), [("k", float("inf"))], {"k": "Infinity"}),
        (pa.map_(pa.int64(), pa.bool_()), [(7, True), (-1, None)], {"7": True, "-1": None}),
        (pa.map_(pa.bool_(), pa.int8()), [(True, 1)], {"true": 1}),
        (pa.map_(pa.float64(), pa.int8()), [(float("inf"), 1)], {"Infinity": 1}),
        (
            pa.list_(pa.struct([("v", pa.binary())])),
            [{"v": b"\0\xff"}, None],
            [{"v": "AP8="}, None],
        ),
        (pa.struct([("d", pa.date32())]), {"d": dt.date(1, 1, 1)}, {"d": "0001-01-01"}),
        (
            pa.struct([("t", pa.timestamp("us", "Europe/Berlin"))]),
            {"t": dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)},
            {"t": "2024-07-01T12:00:00Z"},
        ),
        (
            pa.struct([("t", pa.timestamp("us"))]),
            {"t": 0},
            {"t": "1970-01-01T00:00:00"},
        ),
    ],
)
def test_nested_values_become_json(kind: pa.DataType, value: object, expected: object) -> None:
    texts = json_text(pa.array([value, None], kind)).to_pylist()
    assert json.loads(texts[0]) == expected
    assert texts[1] is None


def test_decimals_in_json_keep_all_their_digits() -> None:
    digits = Decimal("1234567890123456789012345678.0123456789")
    kind = pa.struct([("d", pa.decimal128(38, 10))])
    (text,) = json_text(pa.array([{"d": digits}], kind)).to_pylist()
    assert json.loads(text, parse_float=Decimal) == {"d": digits}


def test_more_columns_than_a_table_has_room_for_are_refused() -> None:
    """G174: some are for Tidemark's own tables, which have these and a few more."""
    fields = [(f"n{n}", pa.int64()) for n in range(MOST_COLUMNS + 1)]
    assert len(columns_of(pa.schema(fields[:-1]))) == MOST_COLUMNS
    with pytest.raises(ColumnsTooMany) as refused:
        columns_of(pa.schema(fields))
    assert (refused.value.columns, refused.value.most) == (MOST_COLUMNS + 1, MOST_COLUMNS)


def test_a_row_that_no_page_has_room_for_is_told_by_its_columns() -> None:
    """G174: values that can be stored elsewhere count as nothing much."""

    def bytes_of(kind: pa.DataType, columns: int) -> int | None:
        return too_wide(columns_of(pa.schema([(f"n{n}", kind) for n in range(columns)])))

    assert bytes_of(pa.int64(), 1015) is None
    assert bytes_of(pa.int64(), 1016) == 8128
    assert bytes_of(pa.string(), 1500) is None
