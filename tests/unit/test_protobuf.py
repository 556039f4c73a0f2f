"""B12: messages of Protobuf into declared types, each alone and in company."""

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.type import date_pb2
from tests.support.protobuf import (
    FIRST,
    as_set,
    entry,
    enum,
    field,
    file,
    made,
    message,
    serialized,
)
from tests.support.registry import framed

from tidemark.decode import Decoding, Reason, _protobuf
from tidemark.decode._plans import MOST_PLANS, MOST_UNKNOWN, Plans
from tidemark.decode._protobuf import Messages, ProtobufDecoder, Registered
from tidemark.decode.errors import DescriptorUnfit
from tidemark.decode.port import Refusal
from tidemark.decode.registry import Written
from tidemark.settings.connections import Connection
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.fields import arrow_schema
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.record_decoder import decoder_of
from tidemark.spark.specs import decoding_of


@pytest.fixture(autouse=True, params=[1, 1_000_000], ids=["together", "one-by-one"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test reads in both ways."""
    monkeypatch.setattr(_protobuf, "FEW", request.param)


class Known:
    """A registry that knows these schemas, numbered from 1."""

    def __init__(self, *schemas: Any) -> None:
        self._schemas = schemas
        self.asked: list[Any] = []

    def serialized(self, schema_id: Any) -> Written:
        self.asked.append(schema_id)
        if schema_id not in range(1, len(self._schemas) + 1):
            raise Refusal(Reason.UNKNOWN_SCHEMA, "no such schema")
        one = self._schemas[schema_id - 1]
        text = one if isinstance(one, str) else serialized(one)
        return Written("PROTOBUF", text)


def decoder(*schemas: Any, max_bytes: int = 100_000, **fields: str) -> ProtobufDecoder:
    columns = arrow_schema(fields)
    known: Any = Known(*schemas)
    return ProtobufDecoder(
        columns, Registered(known, partial(Messages, schema=columns)), max_bytes=max_bytes
    )


GOOD = file(message("G", field("b", "int32")))


def one(schema: Any, declared: str, data: bytes) -> Any:
    """The value of field a, or why there is none; the same alone and beside good messages."""
    read = decoder(schema, GOOD, a=declared, b="int")
    value, good = framed(1, data, FIRST), framed(2, b"\x08\x01", FIRST)
    alone, beside = read.decode([value]), read.decode([good, value, good])
    assert beside.rows.column("b").to_pylist()[-1] == 1
    if alone.rejected:
        [told], [two] = alone.rejected, beside.rejected
        assert (told.reason, told.detail, two.index) == (two.reason, two.detail, 1)
        assert beside.kept.to_pylist() == [0, 2]
        return told.reason
    assert alone.rows.column("a").to_pylist() == beside.rows.column("a").to_pylist()[1:2]
    return alone.rows.column("a").to_pylist()[0]


NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)
SECONDS = 1709208000
COLOUR = enum("E", "red", "blue")
INNER = message("Inner", field("x", "int32"), field("y", "string", optional=True))
IMPORTS = ["google/protobuf/timestamp.proto", "google/protobuf/duration.proto",
           "google/protobuf/wrappers.proto", "google/protobuf/struct.proto",
           "google/protobuf/field_mask.proto", "google/protobuf/type.proto",
           "google/type/date.proto",
           "confluent/type/decimal.proto"]  # fmt: skip
MAP = "array<struct<key:string,value:bigint>>"


def schema_of(kind: str, **more: Any) -> Any:
    """A file whose first message has a field a of this kind."""
    within = (entry("AEntry", "string", "int32"), entry("BEntry", "int32", ".t.Inner"))
    first = message("M", field("a", kind, **more), nested=within)
    return file(first, INNER, enum_type=[COLOUR], dependency=IMPORTS)


def known(kind: str) -> Any:
    return schema_of(f".google.protobuf.{kind}")


DURATION, TIMESTAMP = duration_pb2.Duration, timestamp_pb2.Timestamp
STRUCT, VALUE = struct_pb2.Struct(), struct_pb2.Value(number_value=1.5)
STRUCT.update({"b": [1, None, True], "a": {"é": "x"}})
LIST = struct_pb2.ListValue(values=[VALUE])
CONFLUENT = decimal_pb2.Decimal(value=b"\xff\x6a", precision=3, scale=2)


@pytest.mark.parametrize(
    ("schema", "declared", "given", "expected"),
    [
        (schema_of("int32"), "smallint", -32768, -32768),
        (schema_of("sint32"), "int", -(2**31), -(2**31)),
        (schema_of("sfixed32"), "bigint", 7, 7),
        (schema_of("uint32"), "bigint", 2**32 - 1, 2**32 - 1),
        (schema_of("fixed32"), "int", 2**31 - 1, 2**31 - 1),
        (schema_of("int64"), "bigint", -(2**63), -(2**63)),
        (schema_of("sint64"), "int", -5, -5),
        (schema_of("sfixed64"), "double", 3, 3.0),
        (schema_of("uint64"), "bigint", 2**63 - 1, 2**63 - 1),
        (schema_of("fixed64"), "decimal(20,0)", 2**64 - 1, Decimal(2**64 - 1)),
        (schema_of("int32"), "int", 0, 0),
        (schema_of("int32", optional=True), "int", 0, 0),
        (schema_of("int32", optional=True), "int", None, None),
        (schema_of("float"), "float", 1.5, 1.5),
        (schema_of("float"), "double", 1.5, 1.5),
        (schema_of("double"), "double", 1e300, 1e300),
        (schema_of("double"), "float", float("inf"), float("inf")),
        (schema_of("bool"), "boolean", True, True),
        (schema_of("string"), "string", "é😀", "é😀"),
        (schema_of("string"), "binary", "é", "é".encode()),
        (schema_of("bytes"), "binary", b"\xff\0", b"\xff\0"),
        (schema_of("bytes"), "string", "é".encode(), "é"),
        (schema_of("enum .t.E"), "string", 1, "blue"),
        (schema_of("enum .t.E"), "smallint", 7, 7),
        (schema_of("int64", many=True), "array<int>", [1, -2], [1, -2]),
        (schema_of("string", many=True), "array<string>", None, []),
        (schema_of("enum .t.E", many=True), "array<string>", [0, 1], ["red", "blue"]),
        (schema_of(".t.Inner"), "struct<x:bigint,z:date>", {"x": 1}, {"x": 1, "z": None}),
        (schema_of(".t.Inner"), "struct<x:int,y:string>", {}, {"x": 0, "y": None}),
        (schema_of(".t.Inner"), "struct<x:int>", None, None),
        (schema_of(".t.Inner", many=True), "array<struct<y:string>>", [{"y": "a"}], [{"y": "a"}]),
        (schema_of(".t.M.AEntry", many=True), MAP, {"b": 2, "a": 1},
         [{"key": "a", "value": 1}, {"key": "b", "value": 2}]),
        (schema_of(".t.M.BEntry", many=True), "array<struct<key:int,value:struct<x:int>>>",
         {10: {"x": 3}, 9: {}}, [{"key": 9, "value": {"x": 0}}, {"key": 10, "value": {"x": 3}}]),
        (known("Timestamp"), "timestamp", TIMESTAMP(seconds=SECONDS, nanos=123456000), NOON),
        (known("Timestamp"), "timestamp", None, None),
        (known("Timestamp"), "struct<seconds:bigint,nanos:int>", TIMESTAMP(seconds=-1, nanos=1),
         {"seconds": -1, "nanos": 1}),
        (known("Duration"), "decimal(12,9)", DURATION(seconds=-1, nanos=-5),
         Decimal("-1.000000005")),
        (known("Int32Value"), "int", wrappers_pb2.Int32Value(value=0), 0),
        (known("Int32Value"), "int", None, None),
        (known("UInt64Value"), "bigint", wrappers_pb2.UInt64Value(value=5), 5),
        (known("StringValue"), "string", wrappers_pb2.StringValue(value="a"), "a"),
        (known("BytesValue"), "struct<value:binary>", wrappers_pb2.BytesValue(value=b"a"),
         {"value": b"a"}),
        (known("Struct"), "string", STRUCT, '{"a": {"é": "x"}, "b": [1.0, null, true]}'),
        (known("Value"), "string", VALUE, "1.5"),
        (known("ListValue"), "string", LIST, "[1.5]"),
        (schema_of(".google.type.Date"), "date", date_pb2.Date(year=2024, month=2, day=29),
         date(2024, 2, 29)),
        (schema_of(".confluent.type.Decimal"), "decimal(6,3)", CONFLUENT, Decimal("-1.500")),
    ],
)  # fmt: skip
def test_a_value_is_read_into_its_declared_type(
    schema: Any, declared: str, given: Any, expected: Any
) -> None:
    """B12"""
    if hasattr(given, "SerializeToString"):  # of another pool: the bytes are the same
        body = given.SerializeToString()
        data = b"\x0a" + len(body).to_bytes() + body
    else:
        data = made(schema)(a=given).SerializeToString()
    assert one(schema, declared, data) == expected


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        (schema_of("string"), "int"), (schema_of("int32"), "string"), (schema_of("bool"), "int"),
        (schema_of("bytes"), "double"), (schema_of("double"), "bigint"),
        (schema_of("float"), "decimal(9,2)"), (schema_of("enum .t.E"), "binary"),
        (schema_of("enum .t.E"), "boolean"), (schema_of("int64"), "timestamp"),
        (schema_of("int32"), "date"), (schema_of("int32"), "array<int>"),
        (schema_of("int32", many=True), "int"), (schema_of("string", many=True), "array<int>"),
        (schema_of("int32"), "struct<x:int>"), (schema_of(".t.Inner"), "string"),
        (schema_of(".t.Inner"), "struct<x:string>"), (schema_of(".t.M.AEntry", many=True), "int"),
        (schema_of(".t.M.AEntry", many=True), "array<struct<key:string,val:int>>"),
        (schema_of(".t.M.AEntry", many=True), "array<struct<key:int,value:int>>"),
        (known("Timestamp"), "bigint"), (known("Duration"), "bigint"), (known("Struct"), "int"),
        (known("Int32Value"), "string"), (known("FieldMask"), "string"),
        (known("EnumValue"), "string"),
        (schema_of(".google.type.Date"), "timestamp"),
        (schema_of(".confluent.type.Decimal"), "double"),
        (schema_of(".t.Absent"), "int"), (file(message("M"), message("M")), "int"),
        ("AAAA", "int"), ("A", "int"), (file(), "int"),
        (file(message("M"), dependency=["other.proto"]), "int"),
        (file(message("M"), dependency=["google/type/nothing.proto"]), "int"),
        (file(entry("M", "int32", "int32")), "int"),
    ],
)  # fmt: skip
def test_what_has_no_way_into_the_declared_type_is_told(schema: Any, declared: str) -> None:
    """B12: by the schema alone, whatever the bytes are."""
    assert one(schema, declared, b"") is Reason.OTHER_SCHEMA


PROTO2 = file(message("M", field("a", "string"), field("e", "enum .t.E")), syntax="proto2",
              enum_type=[COLOUR])  # fmt: skip
REQUIRED = message("R", field("x", "int32"))
REQUIRED.field[0].label = 2
NEEDS = file(message("M", field("a", ".t.R")), REQUIRED, syntax="proto2")
MANY = schema_of("int32", many=True)


@pytest.mark.parametrize(
    ("schema", "declared", "data", "reason"),
    [
        (schema_of("int32"), "smallint", b"\x08\x80\x80\x02", Reason.OUT_OF_RANGE),
        (schema_of("uint64"), "bigint", b"\x08" + b"\xff" * 9 + b"\x01", Reason.OUT_OF_RANGE),
        (schema_of("uint32"), "int", b"\x08\xff\xff\xff\xff\x0f", Reason.OUT_OF_RANGE),
        (schema_of("enum .t.E"), "string", b"\x08\x07", Reason.OUT_OF_RANGE),
        (schema_of("string"), "string", b"\x0a\x01\0", Reason.NUL_IN_TEXT),
        (schema_of("bytes"), "string", b"\x0a\x01\0", Reason.NUL_IN_TEXT),
        (schema_of("bytes"), "string", b"\x0a\x01\xff", Reason.INVALID_UTF8),
        (PROTO2, "string", b"\x0a\x01\xff", Reason.INVALID_UTF8),
        (schema_of("string"), "string", b"\x0a\x01\xff", Reason.INVALID_PROTOBUF),
        (schema_of("string"), "string", b"\x0a\x05a", Reason.INVALID_PROTOBUF),
        (schema_of("string"), "string", b"\x0a" + b"\xff" * 8 + b"\x7f", Reason.INVALID_PROTOBUF),
        (schema_of("int32"), "int", b"\x08" + b"\xff" * 10, Reason.INVALID_PROTOBUF),
        (schema_of("int32"), "int", b"\x08", Reason.INVALID_PROTOBUF),
        (schema_of("int32"), "int", b"\0\0", Reason.INVALID_PROTOBUF),
        (schema_of("int32"), "int", b"\x0c", Reason.INVALID_PROTOBUF),
        (schema_of("int32"), "int", b"\x1b" * 200 + b"\x1c" * 200, Reason.INVALID_PROTOBUF),
        (schema_of("int32"), "int", b"\x0a\x01a", Reason.WRONG_TYPE),
        (schema_of("string"), "string", b"\x08\x05", Reason.WRONG_TYPE),
        (schema_of(".t.Inner"), "struct<x:int>", b"\x0a\x03\x0a\x01a", Reason.WRONG_TYPE),
        (known("Int32Value"), "int", b"\x0a\x03\x0a\x01a", Reason.WRONG_TYPE),
        (PROTO2, "string", b"\x10\x07", Reason.WRONG_TYPE),
        (NEEDS, "struct<x:int>", b"\x0a\0", Reason.INVALID_PROTOBUF),
        (known("Timestamp"), "timestamp", b"\x0a\x02\x10\x01", Reason.OUT_OF_RANGE),
        (known("Timestamp"), "timestamp", b"\x0a\x0b\x10" + b"\xff" * 9 + b"\x01",
         Reason.OUT_OF_RANGE),
        (known("Timestamp"), "timestamp", b"\x0a\x0a\x08" + b"\xff" * 8 + b"\x7f",
         Reason.OUT_OF_RANGE),
        (known("Duration"), "decimal(9,6)", b"\x0a\x02\x10\x01", Reason.OUT_OF_RANGE),
        (known("Duration"), "decimal(9,0)", b"\x0a\x0d\x08\x01\x10" + b"\xff" * 9 + b"\x01",
         Reason.OUT_OF_RANGE),
        (known("Value"), "string", b"\x0a\x09\x11\0\0\0\0\0\0\xf8\x7f", Reason.WRONG_TYPE),
        (schema_of(".google.type.Date"), "date", b"\x0a\x02\x10\x01", Reason.OUT_OF_RANGE),
        (schema_of(".confluent.type.Decimal"), "decimal(2,0)", b"\x0a\x04\x0a\x02\x10\0",
         Reason.OUT_OF_RANGE),
        (schema_of(".confluent.type.Decimal"), "decimal(2,0)", b"\x0a\x06\x18\xff\xff\xff\xff\x07",
         Reason.OUT_OF_RANGE),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_told(
    schema: Any, declared: str, data: bytes, reason: Reason
) -> None:
    """B12"""
    assert one(schema, declared, data) is reason


def test_fields_that_one_side_lacks_are_null_or_passed_over() -> None:
    """B12: also those of which the schema does not know."""
    first = file(message("M", field("id", "int64"), field("gone", ".t.Inner")), INNER)
    second = file(message("M", field("id", "int32", number=5), field("new", "string")))
    read = decoder(first, second, id="bigint", new="string", never="date")
    values = [
        framed(1, made(first)(id=1, gone={"x": 1}).SerializeToString(), FIRST),
        framed(2, made(second)(id=2, new="b").SerializeToString() + b"\x7d\1\2\3\4", FIRST),
    ]
    assert read.decode(values).rows.to_pylist() == [
        {"id": 1, "new": None, "never": None},
        {"id": 2, "new": "b", "never": None},
    ]


def test_a_oneof_is_its_members_of_which_one_is_there() -> None:
    """B12"""
    both = message("M", field("a", "int32", oneof_index=0), field("b", "string", oneof_index=0))
    both.oneof_decl.add(name="which")
    schema = file(both)
    read = decoder(schema, a="int", b="string", which="string")
    values = [framed(1, made(schema)(**one).SerializeToString(), FIRST)
              for one in ({"a": 0}, {"b": ""}, {})]  # fmt: skip
    assert read.decode(values).rows.to_pylist() == [
        {"a": 0, "b": None, "which": None},
        {"a": None, "b": "", "which": None},
        {"a": None, "b": None, "which": None},
    ]


def test_fields_of_proto2_are_null_where_they_are_not_written() -> None:
    """B12: defaults are for readers that have none."""
    default = field("a", "int32", default_value="7")
    required = field("b", "int32")
    required.label = 2
    schema = file(message("M", default, required), syntax="proto2")
    read = decoder(schema, a="int", b="int")
    decoded = read.decode([framed(1, data, FIRST) for data in (b"\x10\1", b"\x08\1")])
    assert decoded.rows.to_pylist() == [{"a": None, "b": 1}]
    assert [one.detail for one in decoded.rejected] == ["a required field is missing"]


def test_a_message_is_found_by_its_place() -> None:
    """B12: among the file's messages, then among those within."""
    inner = message("In", field("a", "int32"))
    outer = message("Out", field("b", "int32"), nested=(entry("E", "int32", "int32"), inner))
    read = decoder(file(message("M"), outer), a="int", b="int")
    data = b"\x08\5"
    values = [framed(1, data, path) for path in (b"\2\2", b"\4\2\2")]
    assert read.decode(values).rows.to_pylist() == [{"a": None, "b": 5}, {"a": 5, "b": None}]
    paths = [
        (b"\2\4", Reason.OTHER_SCHEMA),  # a third message
        (b"\2\1", Reason.OTHER_SCHEMA),  # the one before the first
        (b"\4\2\0", Reason.OTHER_SCHEMA),  # the entry of a map
        (b"\1", Reason.NOT_FRAMED),
        (b"\xc8\1", Reason.NOT_FRAMED),  # a hundred levels
        (b"\x80\x80\x80\x80\x80\0", Reason.NOT_FRAMED),
        (b"\6\2\2", Reason.NOT_FRAMED),
        (b"", Reason.NOT_FRAMED),
    ]
    rejected = read.decode([framed(1, b"", path) for path, _ in paths]).rejected
    assert [one.reason for one in rejected] == [reason for _, reason in paths]


def test_a_record_of_another_message_than_the_named_one_is_refused() -> None:
    """B12: whatever its schema, its place there and its fields."""
    schemas = file(message("M", field("a", "int32")), message("N", field("a", "int32")))
    later = file(message("N", field("a", "int32")), message("M", field("b", "int32")))
    section = {"format": "protobuf", "registry": "r", "schema": {"a": "int"}, "message": "t.M"}
    settings = DecodeSettings.model_validate(section)
    assert decoding_of(settings, {"r": Connection("r", "http", "h")}).message == "t.M"
    columns, known = arrow_schema(settings.declared), Known(schemas, later)
    kinds = Registered(known, partial(Messages, schema=columns), "t.M")  # type: ignore[arg-type]
    places = [(1, b"\0"), (1, b"\2\2"), (2, b"\0"), (2, b"\2\2")]
    values = [framed(number, b"\x08\5", place) for number, place in places]
    decoded = ProtobufDecoder(columns, kinds).decode(values)
    assert decoded.rows.to_pylist() == [{"a": 5}, {"a": None}]
    told = [(one.index, one.reason, one.detail) for one in decoded.rejected]
    assert [one[:2] for one in told] == [(1, Reason.OTHER_SCHEMA), (2, Reason.OTHER_SCHEMA)]
    assert "it is t.N, not t.M" in told[0][2]


def test_a_schema_is_parsed_once_whatever_places_are_named() -> None:
    """B12: a hostile topic costs neither a schema for each place, nor ever more memory."""
    known: Any = Known(file(message("M", field("a", "int32"))), "no descriptor")
    columns = arrow_schema({"a": "int"})
    kinds = Registered(known, partial(Messages, schema=columns))
    read, good = ProtobufDecoder(columns, kinds), framed(1, b"\x08\5", FIRST)
    places = [bytes((2, 2 * at)) for at in range(1, 64)]
    deeper = [b"\4" + first[1:] + second[1:] for first in places for second in places]
    values = [good, *(framed(1 + at % 2, b"", path) for at, path in enumerate(deeper)), good]
    decoded = read.decode(values)
    assert decoded.rows.to_pylist() == [{"a": 5}, {"a": 5}]
    assert {one.reason for one in decoded.rejected} == {Reason.OTHER_SCHEMA}
    assert len(decoded.rejected) == len(deeper) > MOST_PLANS
    assert known.asked == [1, 2]


def test_what_is_kept_of_plans_is_bounded() -> None:
    """B12: what is needed again is made again."""
    made: list[int] = []

    def make(key: int) -> int:
        made.append(key)
        if key == 1:
            raise Refusal(Reason.OTHER_SCHEMA, "so")
        return key

    plans = Plans(make, most=2)
    for _ in range(2):
        with pytest.raises(Refusal, match=r"^schema 1: so$"):
            plans.of(1)
    assert [plans.of(key) for key in (2, 3, 3, 2)] == [2, 3, 3, 2]
    with pytest.raises(Refusal, match=r"^so$"):
        plans.unnamed(1)
    assert made == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_VALUE),
        (b"", Reason.EMPTY_VALUE),
        (b'{"a":1}', Reason.NOT_FRAMED),
        (b"\0\0\0\0\0", Reason.NOT_FRAMED),
        (b"\1" + b"\0" * 15, Reason.NOT_FRAMED),
        (framed(9, b"\2", FIRST), Reason.UNKNOWN_SCHEMA),
        (b"\1" + b"\0" * 17, Reason.UNKNOWN_SCHEMA),
        (framed(1, b"\2" * 100_000), Reason.TOO_LARGE),
    ],
)
def test_values_without_a_schema(value: bytes | None, reason: Reason) -> None:
    """B12"""
    [rejected] = decoder(GOOD, b="int").decode([value]).rejected
    assert rejected.reason is reason


def test_an_unknown_schema_is_asked_for_once_a_block() -> None:
    """B12: and known ones once."""
    known: Any = Known(GOOD)
    columns = arrow_schema({"b": "int"})
    read = ProtobufDecoder(columns, Registered(known, partial(Messages, schema=columns)))
    block = [framed(number, b"\x08\1", FIRST) for number in (1, 9, 9, 1)]
    assert [len(read.decode(block).rejected) for _ in range(2)] == [2, 2]
    assert known.asked == [1, 9, 9]


def test_a_burst_of_unknown_ids_hides_no_schema_that_more_values_have() -> None:
    """G130: and messages within one schema that is not known ask for it once."""
    known: Any = Known(GOOD)
    columns = arrow_schema({"b": "int"})
    read = ProtobufDecoder(columns, Registered(known, partial(Messages, schema=columns)))
    burst = [framed(9 + number, b"", FIRST) for number in range(1000)]
    found = read.decode([*burst, *[framed(1, b"\x08\1", FIRST)] * 2])
    assert (found.rows.num_rows, len(found.rejected)) == (2, 1000)
    assert (known.asked[0], len(known.asked)) == (1, 1 + MOST_UNKNOWN)
    places = [framed(9, b"", bytes([2, 2 * number])) for number in range(63)]
    found = read.decode([*places, *places, framed(2, b"", FIRST)])
    assert (len(found.rejected), known.asked.count(9)) == (127, 2)
    assert "not looked up" not in found.rejected[-1].detail


def test_tombstones_are_rows_in_their_place_when_asked_for() -> None:
    """B12"""
    columns = arrow_schema({"b": "int"})
    kinds = Registered(Known(GOOD), partial(Messages, schema=columns))  # type: ignore[arg-type]
    good = framed(1, b"\x08\1", FIRST)
    decoded = ProtobufDecoder(columns, kinds, takes_null=True).decode([good, None, b"", good])
    assert decoded.rows.column("b").to_pylist() == [1, None, 1]
    assert decoded.kept.to_pylist() == [0, 1, 3]


def test_fields_may_have_names_of_the_library() -> None:
    """B12: a schema is written by others."""
    names = ("HasField", "FromString", "IsInitialized", "DESCRIPTOR", "ByteSize", "__class__")
    schema = file(message("M", *(field(name, "int32", optional=True) for name in names)))
    read = decoder(schema, max_bytes=100_000, **dict.fromkeys(names, "int"))
    value = framed(1, b"".join(bytes((8 * at, at)) for at in range(1, 7)), FIRST)
    [row] = read.decode([value]).rows.to_pylist()
    assert list(row.values()) == [1, 2, 3, 4, 5, 6]


def test_known_messages_are_those_of_the_library() -> None:
    """B12: whoever registers another Timestamp does not give it its meaning."""
    other = file(
        message("Timestamp", field("x", "int32")),
        message("M", field("a", ".google.protobuf.Timestamp")),
        package="google.protobuf",
    )
    read = decoder(other, a="timestamp")
    [rejected] = read.decode([framed(1, b"", b"\2\2")]).rejected
    assert rejected.reason is Reason.OTHER_SCHEMA


def test_messages_within_themselves_are_read_as_deep_as_declared() -> None:
    """B12: and refused where the library does not follow them."""
    node = file(message("M", field("a", "int32"), field("next", ".t.M")))
    read = decoder(node, a="int", next="struct<a:int,next:struct<a:int>>")

    def nested(depth: int) -> bytes:
        data = b"\x08\1"
        for _ in range(depth):
            size = len(data)
            data = b"\x12" + bytes((size & 0x7F | 0x80, size >> 7)) + data
        return framed(1, data, FIRST)

    decoded = read.decode([nested(0), nested(50), nested(5000)])
    assert decoded.rows.column("a").to_pylist() == [1, 0]
    assert [one.reason for one in decoded.rejected] == [Reason.INVALID_PROTOBUF]
    chain = [message(f"C{at}", field("x", f".t.C{at + 1}")) for at in range(3000)]
    long = file(message("M", field("a", "int32"), field("c", ".t.C0")), *chain, message("C3000"))
    [rejected] = decoder(long, a="int").decode([framed(1, b"\x08\1", FIRST)]).rejected
    assert rejected.reason is Reason.OTHER_SCHEMA


def test_rows_stay_in_the_order_of_their_values() -> None:
    """B12: by whichever schema each of them is read."""
    first, second = (
        file(message("M", field("a", "int32"))),
        file(message("M", field("s", "string"), field("a", "int64"))),
    )
    read = decoder(first, second, a="bigint")
    values: list[bytes | None] = []
    for number in range(1, 60):
        data = made((first, second)[number % 2])(a=number).SerializeToString()
        values.append(framed(number % 2 + 1, data + b"\0" * (number % 7 == 3), FIRST))
    decoded = read.decode(values)
    kept, refused = decoded.kept.to_pylist(), [one.index for one in decoded.rejected]
    assert kept == sorted(kept)
    assert sorted(kept + refused) == list(range(59))
    assert len(refused) > 2
    assert decoded.rows.column("a").to_pylist() == [index + 1 for index in kept]


ORDER = file(message("Order", field("id", "int64"), field("at", ".google.protobuf.Timestamp")),
             dependency=["google/protobuf/timestamp.proto"], package="shop")  # fmt: skip
FILE = {
    "region": "r",
    "kafka": {"connection": "k", "topics": ["t"]},
    "decode": {"format": "protobuf", "descriptor": "orders.pb", "message": "shop.Order",
               "schema": {"id": "bigint", "at": "timestamp"}},
    "target": {"connection": "w", "table": "public.t"},
}  # fmt: skip


OTHER_TIMES = file(message("Timestamp", field("x", "int32")), package="google.protobuf",
                   name="google/protobuf/timestamp.proto")  # fmt: skip


def loaded(folder: Path, descriptors: bytes | None, **decode: Any) -> Pipeline:
    """A pipeline file in this folder, beside its descriptor."""
    if descriptors is not None:
        (folder / "orders.pb").write_bytes(descriptors)
    pipeline = FILE | {"decode": FILE["decode"] | decode}  # type: ignore[operator]
    (folder / "t.yaml").write_text(yaml.safe_dump(pipeline))
    return Pipeline.load(folder / "t.yaml")


def test_bare_messages_are_read_by_a_file_of_descriptors(tmp_path: Path) -> None:
    """B12: a value without bytes is a message without fields; known messages stay known."""
    pipeline = loaded(tmp_path, as_set(OTHER_TIMES, ORDER))
    decoding = pickle.loads(pickle.dumps(decoding_of(pipeline.decode, {})))
    decoded = decoder_of(decoding).decode([b"\x08\x05", b"", None, b"\x08", b"\x10\1"])
    assert decoded.rows.to_pylist() == [{"id": 5, "at": None}, {"id": 0, "at": None}]
    assert [(one.index, one.reason) for one in decoded.rejected] == [
        (2, Reason.NULL_VALUE),
        (3, Reason.INVALID_PROTOBUF),
        (4, Reason.WRONG_TYPE),
    ]


def test_messages_behind_ids_are_read_by_a_file_too(tmp_path: Path) -> None:
    """B12: no registry is asked; another message of the schema is refused."""
    within = message("Order", field("id", "int64"), field("at", "int64"))
    outer = file(message("First"), message("Out", nested=(message("In"), within)), package="shop")
    fields = {"schema": {"id": "bigint"}, "message": "shop.Out.Order", "framing": "registry"}
    pipeline = loaded(tmp_path, as_set(outer), **fields)
    values = [
        framed(7, b"\x08\5", b"\4\2\2"),
        framed(7, b"\x08\5", b"\4\2\0"),
        framed(7, b"\x08\5", FIRST),
        b"\x08\5",
        b"",
    ]
    decoded = decoder_of(decoding_of(pipeline.decode, {})).decode(values)
    assert decoded.rows.to_pylist() == [{"id": 5}]
    assert [one.reason for one in decoded.rejected] == [
        Reason.OTHER_SCHEMA,
        Reason.OTHER_SCHEMA,
        Reason.NOT_FRAMED,
        Reason.EMPTY_VALUE,
    ]


def test_another_descriptor_is_another_fingerprint(tmp_path: Path) -> None:
    """B12: the same bytes may be other rows by it."""
    first = fingerprint(loaded(tmp_path, as_set(ORDER)))
    other = fingerprint(loaded(tmp_path, as_set(file(message("Order", field("id", "sint64"))))))
    assert first["decode.message"] == other["decode.message"] == "shop.Order"
    assert first["decode.descriptor"] != other["decode.descriptor"]


@pytest.mark.parametrize(
    ("descriptors", "said"),
    [
        (b"", "Couldn't find message"),
        (b"no descriptor", "no descriptor of Protobuf"),
        (as_set(file(message("Order", field("id", "string")), package="shop")), "string is not"),
        (as_set(file(message("Order"), dependency=["x.proto"], package="shop")), "x.proto"),
    ],
)
def test_a_descriptor_that_cannot_be_used_is_refused_before_anything_is_read(
    tmp_path: Path, descriptors: bytes, said: str
) -> None:
    """B12"""
    pipeline = loaded(tmp_path, descriptors)
    with pytest.raises(DescriptorUnfit) as refused:
        decoder_of(decoding_of(pipeline.decode, {}))
    assert (refused.value.message, said in refused.value.cause) == ("shop.Order", True)


def test_change_events_are_read_from_messages() -> None:
    """B20"""
    row = message("Row", field("id", "int32"))
    event = message("Event", field("before", ".t.Row"), field("after", ".t.Row"),
                    field("op", "string"))  # fmt: skip
    decoding = Decoding("protobuf", arrow_schema({"id": "int"}), envelope="debezium",
                        descriptors=as_set(file(event, row)), message="t.Event")  # fmt: skip
    values = [b"\x12\2\x08\5\x1a\1u", b"\x0a\2\x08\6\x1a\1d", b"\x12\2\x08\5\x1a\1t"]
    decoded = decoder_of(decoding).decode(values)
    assert decoded.rows.to_pylist() == [{"id": 5, "deleted": False}, {"id": 6, "deleted": True}]
    assert [one.reason for one in decoded.rejected] == [Reason.NOT_A_CHANGE]
