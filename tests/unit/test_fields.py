import subprocess
import sys

import pyarrow as pa
import pytest

from tidemark.errors import InvalidSettings
from tidemark.settings.errors import (
    FieldNameUnfit,
    FieldsOfOneName,
    NoFieldDeclared,
)
from tidemark.settings.fields import arrow_schema, arrow_type

UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", pa.bool_()),
        ("smallint", pa.int16()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("INTEGER", pa.int32()),
        ("BigInt", pa.int64()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        (" timestamp ", UTC),
        ("timestamp_ltz", UTC),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("numeric( 38 , 38 )", pa.decimal128(38, 38)),
        ("dec(5)", pa.decimal128(5, 0)),
        ("decimal", pa.decimal128(10, 0)),
        ("array<int>", pa.list_(pa.int32())),
        ("array<struct<a:int>>", pa.list_(pa.struct([("a", pa.int32())]))),
        (
            "Struct<a: array<timestamp>, B:decimal(3,1), `c-d`:struct<e:string>>",
            pa.struct(
                [
                    ("a", pa.list_(UTC)),
                    ("B", pa.decimal128(3, 1)),
                    ("c-d", pa.struct([("e", pa.string())])),
                ]
            ),
        ),
    ],
)
def test_a_type_name_of_spark_sql_is_an_arrow_type(text: str, expected: pa.DataType) -> None:
    assert arrow_type("a", text) == expected


def test_a_schema_keeps_the_order_of_its_fields_and_each_may_be_null() -> None:
    schema = arrow_schema({"b": "int", "a": "string", "c": "struct<d:array<int>>"})
    assert schema.names == ["b", "a", "c"]
    assert all(field.nullable for field in schema)


def unfit(field: str, fault: str) -> FieldNameUnfit:
    return FieldNameUnfit(field=field, fault=fault)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, NoFieldDeclared()),
        ({"": "int"}, unfit("", "is empty or not printable")),
        ({"a\0": "int"}, unfit("a\0", "is empty or not printable")),
        ({"a" * 64: "int"}, unfit("a" * 64, "is 64 bytes long")),
        ({"é" * 32: "int"}, unfit("é" * 32, "is 64 bytes long")),
        ({"kafka_topic": "string"}, unfit("kafka_topic", "starts with 'kafka_'")),
        ({"Kafka_x": "string"}, unfit("Kafka_x", "starts with 'kafka_'")),
        ({"a": "int", "A": "int"}, FieldsOfOneName(names=("a", "A"))),
    ],
    ids=lambda one: getattr(one, "case", None),
)
def test_a_name_that_cannot_be_a_column_is_refused(
    fields: dict[str, str], expected: InvalidSettings
) -> None:
    with pytest.raises(type(expected)) as caught:
        arrow_schema(fields)
    found = caught.value.fields()
    if isinstance(caught.value, FieldNameUnfit):
        found["fault"] = caught.value.fault.partition("; ")[0].partition(", ")[0]
    assert found == expected.fields()


def test_a_name_of_63_bytes_is_a_column() -> None:
    assert arrow_schema({"a" * 63: "int"}).names == ["a" * 63]


def test_fields_need_no_spark() -> None:
    code = "import sys, tidemark.settings.fields; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
