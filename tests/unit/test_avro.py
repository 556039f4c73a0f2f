"""B12: Avro's values into declared types, each alone and in company."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from tests.support.registry import framed

from tidemark.decode import Reason
from tidemark.decode._avro import FEW, AvroDecoder
from tidemark.decode._plans import MOST_UNKNOWN
from tidemark.decode.port import Refusal
from tidemark.decode.registry import Written
from tidemark.settings.fields import arrow_schema


class Known:
    """A registry that knows these schemas, numbered from 1."""

    def __init__(self, *schemas: Any) -> None:
        self._schemas = [Written("AVRO", json.dumps(one)) for one in schemas]
        self.asked: list[Any] = []

    def schema(self, schema_id: Any) -> Written:
        self.asked.append(schema_id)
        if schema_id not in range(1, len(self._schemas) + 1):
            raise Refusal(Reason.UNKNOWN_SCHEMA, "no such schema")
        found: Written = self._schemas[schema_id - 1]
        return found


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


def written(schema: Any, datum: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return out.getvalue()


def decoder(*schemas: Any, max_bytes: int = 100_000, **fields: str) -> AvroDecoder:
    return AvroDecoder(arrow_schema(fields), Known(*schemas), max_bytes=max_bytes)  # type: ignore[arg-type]


def one(kind: Any, declared: str, data: bytes) -> Any:
    """The value of a field, or why there is none; the same alone and beside a good record."""
    made = decoder(record(("a", kind)), record(("b", "int")), a=declared, b="int")
    value, good = framed(1, data), framed(2, b"\2")
    alone, beside = made.decode([value]), made.decode([good, value, good])
    assert beside.rows.column("b").to_pylist()[-1] == 1
    many = made.decode([value] * 20)  # together, column by column
    assert [(one.reason, one.detail) for one in many.rejected] == 20 * [
        (one.reason, one.detail) for one in alone.rejected
    ]
    assert many.rows.to_pylist() == 20 * alone.rows.to_pylist()
    if alone.rejected:
        [one] = alone.rejected
        [two] = beside.rejected
        assert (one.reason, one.detail, two.index) == (two.reason, two.detail, 1)
        assert beside.kept.to_pylist() == [0, 2]
        return one.reason
    assert alone.rows.column("a").to_pylist() == beside.rows.column("a").to_pylist()[1:2]
    return alone.rows.column("a").to_pylist()[0]


NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)
WHOLE = NOON.replace(microsecond=123_000)
MILLIS, MICROS = 1709208000123, 1709208000123456
COLOURS = {"type": "enum", "name": "E", "symbols": ["red", "blue"]}
FOUR = {"type": "fixed", "name": "F", "size": 4}
INNER = record(("x", "int"), ("y", ["null", "string"]), name="Inner")


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


DECIMAL = logical("bytes", "decimal", precision=10, scale=2)
HUGE = written("long", 2**62)
TIME = logical("long", "timestamp-micros")
SIXTEEN = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}


@pytest.mark.parametrize(
    ("kind", "declared", "given", "expected"),
    [
        ("null", "int", None, None),
        ("boolean", "boolean", True, True),
        ("int", "smallint", -32768, -32768),
        ("int", "int", 2**31 - 1, 2**31 - 1),
        ("int", "bigint", -(2**31), -(2**31)),
        ("int", "double", 3, 3.0),
        ("long", "bigint", -(2**63), -(2**63)),
        ("long", "int", 7, 7),
        ("long", "float", 1 << 40, float(1 << 40)),
        ("float", "float", 1.5, 1.5),
        ("float", "double", 1.5, 1.5),
        ("double", "double", 1e300, 1e300),
        ("double", "float", 1e38, 9.999999680285692e37),
        ("string", "string", "é😀", "é😀"),
        ("string", "binary", "é", "é".encode()),
        ("bytes", "binary", b"\xff\0", b"\xff\0"),
        ("bytes", "string", "é".encode(), "é"),
        (FOUR, "binary", b"\0\1\2\3", b"\0\1\2\3"),
        (COLOURS, "string", "blue", "blue"),
        (["null", "string"], "string", None, None),
        (["null", "string"], "string", "a", "a"),
        (["int", "null", "long"], "bigint", 1 << 40, 1 << 40),
        (["int", "string"], "int", 5, 5),
        (DECIMAL, "decimal(10,2)", Decimal("-1.50"), Decimal("-1.50")),
        (DECIMAL, "decimal(4,1)", Decimal("1.50"), Decimal("1.5")),
        (DECIMAL, "decimal(20,6)", Decimal("1.25"), Decimal("1.250000")),
        (DECIMAL, "binary", Decimal("1.00"), b"d"),
        (logical("int", "date"), "date", date(2024, 2, 29), date(2024, 2, 29)),
        (logical("int", "date"), "int", date(1970, 1, 3), 2),
        (logical("int", "time-millis"), "int", 5, 5),
        (logical("long", "time-micros"), "bigint", 5, 5),
        (logical("long", "timestamp-millis"), "timestamp", MILLIS, WHOLE),
        (logical("long", "timestamp-micros"), "timestamp", MICROS, NOON),
        (logical("long", "timestamp-micros"), "bigint", MICROS, MICROS),
        (logical("long", "timestamp-nanos"), "timestamp", MICROS * 1000, NOON),
        (logical("long", "local-timestamp-micros"), "timestamp", MICROS, NOON),
        (logical("string", "uuid"), "string", "no matter", "no matter"),
        (SIXTEEN, "string", bytes(15) + b"\1", "00000000-0000-0000-0000-000000000001"),
        (SIXTEEN, "binary", bytes(16), bytes(16)),
        (INNER, "struct<x:bigint,z:date>", {"x": 1, "y": None}, {"x": 1, "z": None}),
        (INNER, "struct<y:string>", {"x": 1, "y": "a"}, {"y": "a"}),
        ({"type": "array", "items": ["null", "int"]}, "array<bigint>", [1, None], [1, None]),
        ({"type": "array", "items": TIME}, "array<timestamp>", [MICROS], [NOON]),
        (
            {"type": "map", "values": "int"},
            "array<struct<key:string,value:bigint>>",
            {"a": 1},
            [{"key": "a", "value": 1}],
        ),
    ],
)  # fmt: skip
def test_a_value_is_read_into_its_declared_type(
    kind: Any, declared: str, given: Any, expected: Any
) -> None:
    """B12"""
    assert one(kind, declared, written(record(("a", kind)), {"a": given})) == expected


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        ("string", "int"), ("int", "string"), ("boolean", "int"), ("bytes", "double"),
        ("double", "bigint"), ("float", "int"), (COLOURS, "binary"), (FOUR, "string"),
        (DECIMAL, "string"), ("bytes", "decimal(10,2)"), ("int", "date"), ("long", "timestamp"),
        (logical("int", "time-millis"), "timestamp"), (logical("int", "date"), "timestamp"),
        (INNER, "string"), ("int", "struct<x:int>"), ({"type": "array", "items": "int"}, "int"),
        (logical("bytes", "decimal", precision=5000, scale=4000), "decimal(10,2)"),
        ({"type": "array", "items": "string"}, "array<int>"), ("int", "array<int>"),
        ({"type": "map", "values": "int"}, "array<int>"),
        ({"type": "map", "values": "int"}, "struct<key:string,value:int>"),
        ({"type": "map", "values": "int"}, "array<struct<key:string,val:int>>"),
        ({"type": "array", "items": "null"}, "array<int>"),
        ({"type": "array", "items": record(("n", "null"), name="None_")}, "array<int>"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "timestamp"),
    ],
)  # fmt: skip
def test_what_has_no_way_into_the_declared_type_is_told(kind: Any, declared: str) -> None:
    """B12: by the schema alone, whatever the bytes are."""
    assert one(kind, declared, b"") is Reason.OTHER_SCHEMA


@pytest.mark.parametrize(
    ("kind", "declared", "data", "reason"),
    [
        ("int", "smallint", written("int", 32768), Reason.OUT_OF_RANGE),
        ("long", "int", written("long", 2**31), Reason.OUT_OF_RANGE),
        ("double", "float", written("double", 1e39), Reason.OUT_OF_RANGE),
        (logical("int", "date"), "date", written("int", 2_932_897), Reason.OUT_OF_RANGE),
        (logical("int", "date"), "date", written("int", -719_163), Reason.OUT_OF_RANGE),
        (TIME, "timestamp", written("long", 2**62), Reason.OUT_OF_RANGE),
        (logical("long", "timestamp-nanos"), "timestamp", written("long", 1), Reason.OUT_OF_RANGE),
        (DECIMAL, "decimal(4,2)", written("bytes", b"\x27\x10"), Reason.OUT_OF_RANGE),
        (DECIMAL, "decimal(10,1)", written("bytes", b"\1"), Reason.OUT_OF_RANGE),
        (DECIMAL, "decimal(10,2)", written("bytes", b""), Reason.OUT_OF_RANGE),
        (DECIMAL, "decimal(10,2)", written("bytes", b"\1" * 5000), Reason.OUT_OF_RANGE),
        ("string", "string", written("string", "a\0"), Reason.NUL_IN_TEXT),
        ("bytes", "string", written("bytes", b"a\0"), Reason.NUL_IN_TEXT),
        ({"type": "map", "values": "int"}, "array<struct<key:string,value:int>>",
         written({"type": "map", "values": "int"}, {"\0": 1}), Reason.NUL_IN_TEXT),
        ("bytes", "string", written("bytes", b"\xff"), Reason.INVALID_UTF8),
        ("string", "string", b"\2\xff", Reason.INVALID_UTF8),
        (["int", "string"], "int", b"\2\2a", Reason.WRONG_TYPE),
        ("int", "int", b"", Reason.INVALID_AVRO),
        ("int", "int", b"\2\0", Reason.TRAILING_DATA),
        ("int", "int", b"\x80" * 10 + b"\0", Reason.INVALID_AVRO),
        ("int", "bigint", written("long", 2**31), Reason.INVALID_AVRO),
        ("long", "bigint", b"\xff" * 9 + b"\2", Reason.INVALID_AVRO),
        ("boolean", "boolean", b"\2", Reason.INVALID_AVRO),
        ("float", "float", b"\0\0\0", Reason.INVALID_AVRO),
        ("double", "double", b"\0" * 7, Reason.INVALID_AVRO),
        ("string", "string", b"\x7fa", Reason.INVALID_AVRO),
        ("string", "string", b"\1a", Reason.INVALID_AVRO),
        ("bytes", "binary", written("long", 2**62), Reason.INVALID_AVRO),
        (FOUR, "binary", b"abc", Reason.INVALID_AVRO),
        (COLOURS, "string", b"\1", Reason.INVALID_AVRO),
        (COLOURS, "string", b"\4", Reason.INVALID_AVRO),
        (["int", "string"], "int", b"\1\2", Reason.INVALID_AVRO),
        (["int", "string"], "int", b"\4\2", Reason.INVALID_AVRO),
        ({"type": "array", "items": "int"}, "array<int>", b"\2", Reason.INVALID_AVRO),
        ({"type": "array", "items": "int"}, "array<int>", HUGE + b"\2", Reason.INVALID_AVRO),
        ({"type": "array", "items": "int"}, "array<int>", b"\1\4\2\0", Reason.INVALID_AVRO),
        ({"type": "array", "items": "string"}, "array<string>", b"\1\2\2a\0", Reason.INVALID_AVRO),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_told(
    kind: Any, declared: str, data: bytes, reason: Reason
) -> None:
    """B12"""
    assert one(kind, declared, data) is reason


def test_blocks_that_tell_their_size_are_read() -> None:
    """B12: as some writers write arrays."""
    array = {"type": "array", "items": "int"}
    assert one(array, "array<int>", b"\3\4\2\4" + b"\2\6" + b"\0") == [1, 2, 3]


def test_fields_that_one_side_lacks_are_null_or_passed_over() -> None:
    """B12"""
    first = record(("id", "long"), ("gone", {"type": "array", "items": INNER}))
    second = record(("new", "string"), ("id", "int"))
    made = decoder(first, second, id="bigint", new="string", never="date")
    values = [
        framed(1, written(first, {"id": 1, "gone": [{"x": 1, "y": "a"}]})),
        framed(2, written(second, {"id": 2, "new": "b"})),
    ]
    assert made.decode(values).rows.to_pylist() == [
        {"id": 1, "new": None, "never": None},
        {"id": 2, "new": "b", "never": None},
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"", Reason.EMPTY_VALUE),
        (b'{"a":1}', Reason.NOT_FRAMED),
        (b"\0\0\0\0", Reason.NOT_FRAMED),
        (b"\1" + b"\0" * 15, Reason.NOT_FRAMED),
        (b"\2" + b"\0" * 20, Reason.NOT_FRAMED),
        (framed(9, b"\2"), Reason.UNKNOWN_SCHEMA),
        (b"\1" + b"\0" * 17, Reason.UNKNOWN_SCHEMA),
        (b"\0" + (1).to_bytes(8) + b"\2", Reason.UNKNOWN_SCHEMA),  # Apicurio's eight bytes
        (framed(1, b"\2" * 100_000), Reason.TOO_LARGE),
        (framed(2, b"\2"), Reason.OTHER_SCHEMA),
        (framed(3, b"\2"), Reason.OTHER_SCHEMA),
        (framed(4, b"\0"), Reason.WRONG_TYPE),
    ],
)
def test_values_without_a_schema_that_fits(value: bytes | None, reason: Reason) -> None:
    """B12"""
    made = decoder(record(("a", "int")), "int", {"type": "nonsense"}, ["null", record()], a="int")
    [rejected] = made.decode([value]).rejected
    assert rejected.reason is reason


def test_an_unknown_schema_is_asked_for_once_a_block() -> None:
    """B12: and known ones once."""
    known = Known(record(("a", "int")))
    made = AvroDecoder(arrow_schema({"a": "int"}), known)  # type: ignore[arg-type]
    block = [framed(1, b"\2"), framed(9, b"\2"), framed(9, b"\2"), framed(1, b"\2")]
    assert [len(made.decode(block).rejected) for _ in range(2)] == [2, 2]
    assert known.asked == [1, 9, 9]


def test_a_burst_of_unknown_ids_costs_a_bounded_number_of_requests() -> None:
    """G130: and what is common in the block is read, wherever it stands."""
    known = Known(record(("a", "int")))
    made = AvroDecoder(arrow_schema({"a": "int"}), known)  # type: ignore[arg-type]
    burst = [framed(burst_id(number), b"\2") for number in range(1000)]
    found = made.decode([*burst, *[framed(1, b"\2")] * FEW])
    assert (found.rows.num_rows, len(found.rejected)) == (FEW, 1000)
    assert {one.reason for one in found.rejected} == {Reason.UNKNOWN_SCHEMA}
    assert "not looked up" in found.rejected[-1].detail
    assert (known.asked[0], len(known.asked)) == (1, 1 + MOST_UNKNOWN)
    made.decode([*burst[-1:], framed(1, b"\2")])
    assert known.asked[-1] == burst_id(999)
    assert known.asked.count(1) == 1


def burst_id(number: int) -> int:
    return 9 + number


def test_a_tombstone_is_a_row_when_asked_for() -> None:
    """B12"""
    made = AvroDecoder(arrow_schema({"a": "int"}), Known(), takes_null=True)  # type: ignore[arg-type]
    assert made.decode([None]).rows.to_pylist() == [{"a": None}]


TREE = record(("a", "int"), ("all", {"type": "array", "items": "R"}))
LIST = record(("a", "int"), ("next", ["null", "R"]))
NAMES = record(("a", "int"), ("of", {"type": "map", "values": {"type": "array", "items": "R"}}))


@pytest.mark.parametrize(
    ("schema", "declared", "datum"),
    [
        (LIST, {}, {"a": 1, "next": {"a": 2, "next": {"a": 3, "next": None}}}),
        (TREE, {}, {"a": 1, "all": [{"a": 2, "all": [{"a": 3, "all": []}] * 3}] * 3}),
        (NAMES, {}, {"a": 1, "of": {"b": [{"a": 2, "of": {"c": []}}], "d": []}}),
        (LIST, {"next": "struct<a:int>"},
         {"a": 1, "next": {"a": 2, "next": {"a": 3, "next": None}}}),
        (TREE, {"all": "array<struct<a:int>>"},
         {"a": 1, "all": [{"a": 2, "all": [{"a": 3, "all": []}]}]}),
    ],
)  # fmt: skip
def test_a_schema_that_contains_itself_is_read_as_deep_as_declared(
    schema: Any, declared: dict[str, str], datum: Any
) -> None:
    """B12: what is not declared is passed over."""
    fields = arrow_schema({"a": "int", **declared})
    made = AvroDecoder(fields, Known(schema), max_bytes=100_000)  # type: ignore[arg-type]
    found = made.decode([framed(1, written(schema, datum)), framed(1, written(schema, datum)[:-1])])
    inner = {"next": {"a": 2}, "all": [{"a": 2}]}
    assert found.rows.to_pylist() == [{"a": 1, **{name: inner[name] for name in declared}}]
    assert [one.reason for one in found.rejected] == [Reason.INVALID_AVRO]


def test_a_value_within_itself_is_passed_over_to_a_depth() -> None:
    """B12: it could be nested as deep as it pleases, and end the process."""
    made = decoder(LIST, a="int")
    depths = [0, 63, 64, 65, 40_000, 1]
    decoded = made.decode([framed(1, b"\2\2" * depth + b"\2\0") for depth in depths])
    assert decoded.kept.to_pylist() == [0, 1, 2, 5]
    assert {one.reason for one in decoded.rejected} == {Reason.TOO_DEEP}
    deep: Any = "R"
    for number in range(30):
        deep = record((f"x{number}", ["null", {"type": "array", "items": deep}]), name=f"D{number}")
    made = decoder(record(("a", "int"), ("b", ["null", deep])), a="int")
    [rejected] = made.decode([framed(1, b"\2" * 90_000)]).rejected
    assert rejected.reason is Reason.TOO_DEEP
    endless = record(("a", "int"), ("b", "R"))
    [rejected] = decoder(endless, a="int").decode([framed(1, b"\2" * 10)]).rejected
    assert rejected.reason is not Reason.UNREADABLE
    within = record(("l", {"type": "array", "items": record(("b", "E"), name="E")}), name="O")
    [rejected] = (
        decoder(within, l="array<struct<b:struct<c:int>>>").decode([framed(1, b"\2")]).rejected
    )
    assert rejected.reason is Reason.OTHER_SCHEMA


ORACLE = logical("bytes", "decimal", precision=64, scale=127)


@pytest.mark.parametrize(
    ("kind", "declared", "data", "expected"),
    [
        (ORACLE, "binary", b"\2\5", b"\5"),
        (ORACLE, "decimal(10,2)", b"\2\5", Reason.OTHER_SCHEMA),
        (logical("bytes", "decimal"), "binary", b"\2\5", b"\5"),
        (logical("bytes", "decimal", precision=0), "string", b"\2a", "a"),
        (logical("bytes", "decimal", precision="4"), "string", b"\2a", "a"),
        (logical("float", "decimal", precision=2), "float", bytes(4), 0.0),
        ({"type": "fixed", "name": "F1", "size": 1, "logicalType": "decimal", "precision": 3},
         "binary", b"\5", b"\5"),
        ({"type": "fixed", "name": "F2", "size": 1, "logicalType": "decimal", "precision": 2},
         "decimal(2,0)", b"\5", Decimal(5)),
        ({"type": "fixed", "name": "F8", "size": 8, "logicalType": "uuid"}, "binary", bytes(8),
         bytes(8)),
        (logical("long", "timestamp-seconds"), "bigint", b"\2", 1),
        (logical("long", "timestamp-milis"), "timestamp", b"\2", Reason.OTHER_SCHEMA),
        (logical("bytes", "colour"), "string", b"\2a", "a"),
        (logical("bytes", "big-decimal"), "string", b"\2a", Reason.OTHER_SCHEMA),
        ({"type": "long", "logicalType": 5}, "bigint", b"\2", 1),
        ({"type": "long", "logicalType": ["date"]}, "bigint", b"\2", 1),
        ({"type": {"type": "int", "logicalType": "date"}}, "date", b"\2", date(1970, 1, 2)),
        ({"type": ["null", "int"]}, "int", b"\2\2", 1),
        ({"type": "double", "unit": "m"}, "double", bytes(8), 0.0),
        ({"type": "enum", "name": "enum", "symbols": ["x"]}, "string", b"\0", "x"),
        ({"type": "enum", "name": "E1", "symbols": ["x"], "default": "y"}, "string", b"\0", "x"),
        ({"type": "fixed", "name": "fixed", "size": 1}, "binary", b"a", b"a"),
        (record(("b", "int"), name="record"), "struct<b:int>", b"\2", {"b": 1}),
        ({"type": "map", "values": {"type": "null"}}, "array<struct<key:string,value:int>>",
         b"\2\2k\0", [{"key": "k", "value": None}]),
    ],
)  # fmt: skip
def test_what_readers_may_ignore_in_a_schema_is_ignored(
    kind: Any, declared: str, data: bytes, expected: Any
) -> None:
    """B12: as Avro's specification says, the type that carries it is read."""
    assert one(kind, declared, data) == expected


def test_what_only_other_readers_use_of_a_schema_is_ignored() -> None:
    """B12: defaults of another type, another library's hints, a name in the place of a type."""
    schema = record(("a", FOUR), ("b", {"type": "F"}), ("c", "string"), ("d", "double"))
    schema["fields"][2] |= {"default": None, "order": 5, "aliases": "x"}
    schema["fields"][3] |= {"default": 0}
    schema |= {"__fastavro_parsed": True, "__named_schemas": {}, "default": 5}
    value = framed(1, b"abcdefgh" + b"\2c" + bytes(8))
    row = {"a": b"abcd", "b": b"efgh", "c": "c", "d": 0.0}
    made = decoder(schema, a="binary", b="binary", c="string", d="double")
    assert made.decode([value]).rows.to_pylist() == [row]


def test_a_map_that_has_a_key_twice_is_told() -> None:
    """B12: one of the two would be lost, or both be rows of a table."""
    kind, declared = {"type": "map", "values": "int"}, "array<struct<key:string,value:int>>"
    assert one(kind, declared, b"\4\2k\2\2k\4\0") is Reason.DUPLICATE_KEY
    assert one(kind, declared, b"\2\2k\2\2\2k\4\0") is Reason.DUPLICATE_KEY
    assert decoder(record(("a", kind), ("b", "int")), b="int").decode(
        [framed(1, b"\4\2k\2\2k\4\0\2")]
    ).rows.to_pylist() == [{"b": 1}]


def test_a_schema_that_names_a_type_too_often_or_too_deep_is_refused() -> None:
    """B12: a few lines of it would take all memory."""
    wide: Any = "int"
    for depth in range(12):
        inner = wide if depth == 0 else f"N{depth - 1}"
        fields = [(f"f{number}", inner) for number in range(10)]
        if depth:
            fields[0] = ("f0", wide)
        wide = record(*fields, name=f"N{depth}")
    deep: Any = "int"
    for depth in range(100):
        deep = record(("x", deep), name=f"D{depth}")
    for schema in (wide, deep):
        [rejected] = decoder(schema, f0="int").decode([framed(1, b"\2")]).rejected
        assert rejected.reason is Reason.OTHER_SCHEMA


def test_a_huge_decimal_is_refused_by_its_length() -> None:
    """B12: to make a number of its digits takes the longer the more there are, squared."""
    made = decoder(record(("a", DECIMAL)), max_bytes=10**7, a="decimal(10,2)")
    data = written(record(("a", "bytes")), {"a": b"\1" * 10**6})
    assert "1000000 bytes are no decimal" in made.decode([framed(1, data)]).rejected[0].detail


def test_rows_stay_in_the_order_of_their_values() -> None:
    """B12: whichever way and by whichever schema each of them is read."""
    first, second = record(("a", "int"), ("s", "string")), record(("s", "string"), ("a", "long"))
    made = decoder(first, second, a="bigint", s="string")
    values: list[bytes | None] = []
    for number in range(60):
        text = "é" if number % 7 else "plain"
        schema, schema_id = (second, 2) if number % 3 == 1 else (first, 1)
        value = framed(schema_id, written(schema, {"a": number, "s": text}))
        values.append(value[:-1] + b"\xff" if number % 10 == 4 else value)
    decoded = made.decode(values)
    kept = decoded.kept.to_pylist()
    assert kept == sorted(kept)
    refused = [one.index for one in decoded.rejected]
    assert sorted(kept + refused) == list(range(60))
    assert len(refused) > 2
    assert decoded.rows.column("a").to_pylist() == kept


@pytest.mark.parametrize(
    ("within", "place"),
    [
        ({"d": 10**9}, "$.v.d"),
        ({"s": "\0"}, "$.v.s"),
        ({"l": ["\0"]}, "$.v.l[]"),
        ({"s": "bad"}, "$.v.s"),
        ({"l": ["bad"]}, "$.v.l[]"),
    ],
)
def test_a_reason_names_the_column_at_any_depth(within: Any, place: str) -> None:
    """B12: a text that is no UTF-8, too."""
    days = {"type": "int", "logicalType": "date"}
    texts = {"type": "array", "items": "string"}
    inner = record(("s", "string"), ("d", days), ("l", texts), name="Inner")
    schema = record(("v", inner), name="Outer")
    value = written(schema, {"v": {"s": "", "d": 1, "l": []} | within}).replace(b"bad", b"b\xffd")
    declared = arrow_schema({"v": "struct<s:string,d:date,l:array<string>>"})
    decoder = AvroDecoder(declared, Known(schema))  # type: ignore[arg-type]
    decoded = decoder.decode([framed(1, value)])
    assert [one.detail.endswith(f" - at `{place}`") for one in decoded.rejected] == [True]
