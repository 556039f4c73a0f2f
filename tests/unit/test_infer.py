"""B12, B20: a schema to paste, from values or from what wrote them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.protobuf import as_set, entry, enum, field, file, message
from tests.unit.test_avro import COLOURS, DECIMAL, INNER, SIXTEEN, TIME, Known, logical, record
from tests.unit.test_pipeline import MINIMAL

from tidemark.check.first_records import Inferred
from tidemark.decode import Decoding, JsonDecoder, Reason
from tidemark.decode._avro import AvroDecoder
from tidemark.decode.infer import inferred
from tidemark.decode.registry import Written
from tidemark.decode.registry_columns import of_avro, unions_of_avro
from tidemark.settings.errors import FieldsNotInferred
from tidemark.settings.fields import arrow_schema
from tidemark.settings.pipeline import Pipeline


def of_json(*documents: Any, **changes: Any) -> dict[str, str | None]:
    return inferred(Decoding("json", **changes), [json.dumps(one).encode() for one in documents])


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        ([1, -5], "bigint"), ([1, 2**63], "decimal(38,0)"), ([10**40], None),
        ([1, 2.5], "double"), ([True, None], "boolean"), ([None, None], None),
        (["a"], "string"), (["2024-02-29"], "date"), (["2024-02-29T12:00:00Z"], "timestamp"),
        (["2024-02-29", "2024-02-29 12:00:00.123+01:00"], "timestamp"),
        (["2024-02-29", "soon"], "string"), ([1, "a"], None), ([True, 1], None),
        ([[1], [], [2.5]], "array<double>"), ([[]], None), ([[1, "a"]], None),
        ([{"a": 1, "c d": "x"}, {"b": None, "a": None}], "struct<a:bigint,`c d`:string>"),
        ([{"a": [{"b": True}]}], "struct<a:array<struct<b:boolean>>>"), ([{}], None),
        ([{"a": 1}, 5], None),
        (["2017-09-15Z"], "date"), (["2017-09-15Z", "2024-02-29 12:00"], "timestamp"),
        (["2024-02-29T12:00:00.1234560Z"], "timestamp"), (["2024-02-29t12:00z"], "timestamp"),
        (["٢٠٢٤-٠٢-٢٩"], "string"), (["2024-02-30"], "string"), (["2024-02-29 25:61"], "string"),
        (["2024-02-29 12:00:00.1234567"], "string"), (["0000-01-01"], "string"),
        ([{"a`b": 1, "c": 1, 'd"': 1, "e\\": 1, "": 1}], "struct<c:bigint>"), ([{"`": 1}], None),
    ],
)  # fmt: skip
def test_json_tells_its_fields_by_its_values(values: list[Any], declared: str | None) -> None:
    """B12: the decoder reads all of them so."""
    documents = [{"f": value} for value in values]
    assert of_json(*documents) == {"f": declared}
    if declared:
        read = JsonDecoder(arrow_schema({"f": declared}))
        assert read.decode([json.dumps(one).encode() for one in documents]).rejected == []


def test_what_is_no_object_tells_nothing() -> None:
    """B12: of change events the row does."""
    assert of_json(5, [], {"b": 1}, {"a": 2}) == {"b": "bigint", "a": "bigint"}
    values = [b"no JSON", b"[" * 100_000, b"\xff", b"{}"]
    assert of_json({"f": json.loads("[" * 200 + "]" * 200)}) == {"f": None}
    assert inferred(Decoding("json"), values) == {}
    events = [{"payload": {"op": "d", "before": {"a": 1}}}, {"op": "c", "after": {"b": 1}}, {}]
    assert of_json(*events, envelope="debezium") == {"a": "bigint", "b": "bigint"}


def test_avro_tells_its_fields_by_its_schema() -> None:
    """B12"""
    plain = ("boolean", "int", "long", "float", "double", "string", "bytes")
    fields: list[Any] = [(f"f_{kind}", kind) for kind in plain]
    fields += [("e", COLOURS), ("d", DECIMAL), ("u", SIXTEEN), ("t", ["null", TIME])]
    fields += [("day", logical("int", "date")), ("ms", logical("int", "time-millis"))]
    fields += [("n", INNER), ("again", "Inner"), ("l", {"type": "array", "items": "int"})]
    fields += [("m", {"type": "map", "values": "long"}), ("two", ["int", "string"]), ("no", "null")]
    fields.append(("self", ["null", "R"]))
    found = of_avro(Written("AVRO", json.dumps(record(*fields))))
    assert {name: text for name, text in found.items() if not name.startswith("f_")} | {
        "self": None
    } == {
        "e": "string", "d": "decimal(10,2)", "u": "string", "t": "timestamp", "day": "date",
        "ms": "int", "n": "struct<x:int,y:string>", "again": "struct<x:int,y:string>",
        "l": "array<int>", "m": "array<struct<key:string,value:bigint>>", "two": None, "no": None,
        "self": None,
    }  # fmt: skip
    assert [found[f"f_{kind}"] for kind in plain] == [
        "boolean", "int", "bigint", "float", "double", "string", "binary",
    ]  # fmt: skip
    event = record(("op", "string"), ("after", ["null", record(("a", "int"), name="Row")]))
    assert of_avro(Written("AVRO", json.dumps(event)), "after") == {"a": "int"}
    assert of_avro(Written("AVRO", '"int"')) == {}


def test_unions_of_several_types_are_told_in_words() -> None:
    enum = {"type": "enum", "name": "Colour", "symbols": ["red"]}
    kinds = [["null", "string", "int"], ["null", "long"], [enum, logical("int", "date")], "int"]
    schema = record(*((name, kind) for name, kind in zip("abcd", kinds, strict=True)))
    found = unions_of_avro(Written("AVRO", json.dumps(schema)))
    assert found == {"a": "union of string and int", "c": "union of Colour and date"}


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (logical("bytes", "decimal", precision=64, scale=127), "binary"),
        (logical("bytes", "decimal"), "binary"),
        (logical("float", "decimal", precision=2), "float"),
        (logical("long", "timestamp-seconds"), "bigint"),
        (logical("long", "timestamp-milis"), "bigint"),
        (logical("long", "timestamp-nanos"), "timestamp"),
        (logical("long", "date"), "bigint"),
        ({"type": "fixed", "name": "F8", "size": 8, "logicalType": "uuid"}, "binary"),
        (SIXTEEN, "string"),
        ({"type": "long", "logicalType": 5}, "bigint"),
        (logical("bytes", "big-decimal"), "binary"),
        ({"type": "enum", "name": "enum", "symbols": ["x"]}, "string"),
        ({"type": "array", "items": record(("n", "null"), name="None_")}, None),
        ({"type": "array", "items": record(("b", {"type": "fixed", "name": "Z", "size": 0}),
                                           name="None_")}, None),
        ({"type": "array", "items": "R"}, "array<struct<b:bigint,a:array<struct<b:bigint>>>>"),
    ],
)  # fmt: skip
def test_avro_tells_only_types_that_are_read(kind: Any, declared: str | None) -> None:
    """B12"""
    schema = record(("b", "long"), ("a", kind))
    assert of_avro(Written("AVRO", json.dumps(schema)))["a"] == declared
    if declared:
        made = AvroDecoder(arrow_schema({"a": declared}), Known(schema))  # type: ignore[arg-type]
        [rejected] = made.decode([b"\0\0\0\0\1"]).rejected
        assert rejected.reason is Reason.INVALID_AVRO


def test_protobuf_tells_its_fields_by_its_message() -> None:
    """B12"""
    within = message("In", field("x", "uint32"), field("me", ".t.In"))
    schema = file(
        message(
            "M",
            field("a", "int32"),
            field("b", "fixed64"),
            field("c", "enum .t.E", many=True),
            field("m", ".t.M.MEntry", many=True),
            field("t", ".google.protobuf.Timestamp"),
            field("w", ".google.protobuf.StringValue"),
            field("s", ".google.protobuf.Struct", many=True),
            field("e", ".t.Empty"),
            nested=(entry("MEntry", "string", "bytes"),),
        ),
        message("Empty"),
        within,
        enum_type=[enum("E", "x")],
        dependency=[
            f"google/protobuf/{name}.proto" for name in ("timestamp", "wrappers", "struct")
        ],
    )
    decoding = Decoding("protobuf", descriptors=as_set(schema), message="t.M")
    found = inferred(decoding, [b"\x08\1"])
    assert found == {
        "a": "int", "b": "decimal(20,0)", "c": "array<string>",
        "m": "array<struct<key:string,value:binary>>", "t": "timestamp", "w": "string",
        "s": "array<string>", "e": None,
    }  # fmt: skip


def test_what_is_printed_can_be_pasted() -> None:
    """B12: names that YAML would take for something else are quoted."""
    fields = {"id": "bigint", "on": "struct<a:int>", "é: x": "string", "odd": None}
    text = Inferred(5, {"decode": fields, "decode.key": {"k": "date"}}).text
    pasted = yaml.safe_load("\n".join(text.split("\n")[:6]))
    assert pasted == {"decode": {"schema": {k: v for k, v in fields.items() if v}}}
    assert "# odd: no type holds what it has" in text
    assert text.endswith("decode:\n  key:\n    schema:\n      k: date")
    [*_, line] = Inferred(1, {"decode": {"a\nregion: b": None}}).text.split("\n")
    assert line.startswith("    # ")


def test_no_run_takes_it(tmp_path: Path) -> None:
    """B20: what a table is made of is decided by a person."""
    path = tmp_path / "p.yaml"
    path.write_text(MINIMAL.replace("{year: int}", "infer"))
    with pytest.raises(FieldsNotInferred) as refused:
        Pipeline.load(path)
    assert refused.value.file == path
    assert Pipeline.load(path, may_infer=True).decode.infers_any
