"""Rows as Avro: read back by fastavro, whatever they hold."""

import io
import json
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tidemark.encode.avro_rows import AvroRows
from tidemark.encode.errors import ColumnNotOfAvro, JsonTooDeep, ValueNotOfAvro


def read_back(kind: str, value: str) -> Any:
    """What fastavro reads of a column that Postgres' JSON says so."""
    rows = AvroRows.of([("c", kind)])
    encoded = rows.encoded(7, f'{{"c": {value}}}'.encode())
    assert encoded[:5] == b"\0\0\0\0\7"
    stream = io.BytesIO(encoded[5:])
    found: Any = fastavro.schemaless_reader(stream, json.loads(rows.text), None)
    assert stream.read() == b""
    return found["c"]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("boolean", "true", True),
        ("smallint", "-32768", -32768),
        ("integer", "2147483647", 2**31 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("double precision", "5e-324", 5e-324),
        ("double precision", '"-Infinity"', float("-inf")),
        ("real", "1.5", 1.5),
        ("numeric(10,2)", '"-0.05"', Decimal("-0.05")),
        ("numeric(38,10)", '"1234567890123456789012345678.0123456789"',
         Decimal("1234567890123456789012345678.0123456789")),
        ("numeric(3,0)", '"-128"', Decimal(-128)),
        ("numeric(10,2)", '"1.5000"', Decimal("1.50")),
        ("numeric(10,2)", "-12", Decimal("-12.00")),
        ("numeric(2,2)", '"0.99"', Decimal("0.99")),
        ("numeric", '"1.10"', "1.10"),
        ("numeric(2,5)", '"0.00012"', "0.00012"),
        ("text", '"é\\u2028"', "é\u2028"),
        ("character varying(9)", '""', ""),
        ("bytea", '"/wD+"', b"\xff\0\xfe"),
        ("date", '"0001-01-01"', date(1, 1, 1)),
        ("timestamp with time zone", '"9999-12-31T23:59:59.999999+00:00"',
         datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        ("timestamp(3) with time zone", '"1969-12-31T23:59:59.5+00:00"',
         datetime(1969, 12, 31, 23, 59, 59, 500000, UTC)),
        ("jsonb", '{"a": [1.10, 1e400, null, "x"]}', '{"a":[1.10,1E+400,null,"x"]}'),
        ("jsonb", '"x"', '"x"'),
        ("jsonb", f"[{'9' * 5000}]", f"[{'9' * 5000}]"),
        ("inet", '"::1"', "::1"),
        ("point", '{"x": 1}', '{"x":1}'),
        ("bigint[]", "[1, null, -1]", [1, None, -1]),
        ("numeric(20,5)[]", '["0.00001", null]', [Decimal("0.00001"), None]),
        ("text[]", "[]", []),
        ("text", "null", None),
    ],
)  # fmt: skip
def test_a_value_is_read_back_by_others(kind: str, value: str, found: Any) -> None:
    """B9: each type has Avro's, and nothing of it is lost."""
    assert read_back(kind, value) == found


def test_the_sign_of_a_zero_is_kept() -> None:
    assert str(read_back("double precision", "-0")) == "-0.0"


def test_uuids_and_times_without_a_zone_have_logical_types() -> None:
    text = '"00000000-0000-0000-0000-000000000001"'
    assert str(read_back("uuid", text)) == json.loads(text)
    found = read_back("timestamp without time zone", '"2026-01-31T12:00:00.5"')
    assert found.isoformat() == "2026-01-31T12:00:00.500000"


def test_each_field_may_be_null_by_default() -> None:
    """B9: a column that comes later leaves the schema compatible."""
    schema = json.loads(AvroRows.of([("a", "bigint"), ("b", "date")]).text)
    assert schema["fields"] == [
        {"name": "a", "type": ["null", "long"], "default": None},
        {"name": "b", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ]
    assert AvroRows.of([("a", "bigint"), ("b", "date")]).encoded(1, b'{"a":1}')[5:] == b"\2\2\0"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric(10,2)", '"NaN"'),
        ("numeric(10,2)", '"12.505"'),
        ("numeric(10,2)", '"123456789.00"'),
        ("numeric(2,2)", '"1.00"'),
        ("numeric(10,2)", "true"),
        ("numeric(10,2)", '"1_0"'),
        ("date", '"infinity"'),
        ("timestamp with time zone", '"0044-03-15T00:00:00+00:00 BC"'),
        ("bigint", "9223372036854775808"),
        ("bigint", '"1"'),
        ("bigint", "true"),
        ("boolean", "1"),
        ("bigint[]", "1"),
        ("bigint[]", "[[1]]"),
    ],
)
def test_what_avro_can_not_hold_is_named(kind: str, value: str) -> None:
    """B9, B16: by its column; nothing is sent in its place."""
    with pytest.raises(ValueNotOfAvro) as refused:
        read_back(kind, value)
    assert refused.value.column == "c"


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_json_that_is_nested_too_deep_is_refused() -> None:
    """B9, B16: by the reader, or by the writer of it."""
    with pytest.raises((JsonTooDeep, ValueNotOfAvro)):
        read_back("jsonb", nested(100_000))


def test_json_that_some_pythons_can_write_is_whole_or_refused() -> None:
    """B9, B16: 3.13 writes what 3.12 does not."""
    with suppress(ValueNotOfAvro):
        assert read_back("jsonb", nested(500)) == nested(500)


@pytest.mark.parametrize("name", ["größe", "1st", "a b", ""])
def test_a_column_that_avro_allows_no_field_for(name: str) -> None:
    with pytest.raises(ColumnNotOfAvro) as refused:
        AvroRows.of([(name, "text")])
    assert refused.value.column == name
