"""B12: the columns that a subject's newest schema of Protobuf has, and which message has them."""

from typing import Any

import pytest
from tests.support.protobuf import entry, enum, field, file, message, serialized
from tests.unit.test_protobuf import IMPORTS

from tidemark.decode.errors import SubjectUnreadable
from tidemark.decode.registry import Written
from tidemark.decode.registry_columns import Asked, NewestSchema, newest

LINE = message("Line", field("sku", "string"), field("pieces", "int32"))
ORDER = message("Order", field("id", "int64"), field("lines", ".t.Line", many=True))


class Latest:
    """A registry with one schema of Protobuf."""

    def __init__(self, *schemas: Any, kind: str = "PROTOBUF") -> None:
        *imports, own = [one if isinstance(one, str) else serialized(one) for one in schemas]
        named = zip(imports, schemas, strict=False)
        references = tuple(Written(kind, text, name=one.name) for text, one in named)
        self._written = Written(kind, own, references)

    def latest(self, subject: str, form: str | None) -> tuple[int, Written]:
        assert form == "serialized"
        return 7, self._written


def asked(*schemas: Any, kind: str = "PROTOBUF", **asked: Any) -> NewestSchema:
    known: Any = Latest(*schemas, kind=kind)
    return newest(known, "protobuf", "s", Asked(**asked))


def of(*fields: Any) -> Any:
    """A file whose only outer message has these fields; what they need stands within."""
    nested = (
        entry("PairsEntry", "string", "double"),
        message("In", field("x", "uint32"), field("y", "bytes", optional=True)),
        message("Again", field("again", ".t.M.Again"), field("x", "int32")),
        message("Nothing"),
        message("Twice", field("a", "int32"), field("A", "int32")),
    )
    within = message("M", *fields, nested=nested)
    within.enum_type.append(enum("E", "red", "blue"))
    return file(within, dependency=[*IMPORTS, "google/protobuf/any.proto"])


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (field("f", "int32"), "int"),
        (field("f", "sint32", optional=True), "int"),
        (field("f", "uint32"), "bigint"),
        (field("f", "fixed64"), "decimal(20,0)"),
        (field("f", "float"), "float"),
        (field("f", "bool", many=True), "array<boolean>"),
        (field("f", "bytes"), "binary"),
        (field("f", "enum .t.M.E"), "string"),
        (field("f", "enum .t.M.E", many=True), "array<string>"),
        (field("f", ".t.M.In"), "struct<x:bigint,y:binary>"),
        (field("f", ".t.M.In", many=True), "array<struct<x:bigint,y:binary>>"),
        (field("f", ".t.M.PairsEntry", many=True), "array<struct<key:string,value:double>>"),
        (field("f", ".google.protobuf.Timestamp"), "timestamp"),
        (field("f", ".google.protobuf.Duration"), "decimal(21,9)"),
        (field("f", ".google.protobuf.UInt64Value"), "decimal(20,0)"),
        (field("f", ".google.protobuf.Struct"), "string"),
        (field("f", ".google.protobuf.FieldMask"), "struct<paths:array<string>>"),
        (field("f", ".google.type.Date"), "date"),
        (field("f", ".confluent.type.Decimal"), "decimal(38,9)"),
        (field("f", ".google.protobuf.Any"), "struct<type_url:string,value:binary>"),
        (field("f", ".t.M.Again"), None),
        (field("f", ".t.M.Nothing"), None),
        (field("f", ".t.M.Twice"), None),
    ],
)
def test_a_field_is_the_column_that_holds_all_of_it(made: Any, expected: str | None) -> None:
    """B12: one of which a part would be left out is none."""
    schema = of(field("id", "int64"), made)
    found = asked(schema)
    assert found.fields == {"id": "bigint", made.name: expected}
    assert (found.message, str(found)) == ("t.M", "s version 7")


def test_members_of_a_oneof_are_columns_beside_each_other() -> None:
    """B12"""
    both = message("M", field("a", "int32", oneof_index=0), field("b", "string", oneof_index=0))
    both.oneof_decl.add(name="either")
    assert asked(file(both)).fields == {"a": "int", "b": "string"}


def test_a_field_of_too_many_parts_is_none() -> None:
    """B12: a few lines that name a message billions of times end the search, not the open."""
    fields = [field(f"x{at}", ".t.W") for at in range(300)]
    wide = file(message("M", field("id", "int64"), field("wide", ".t.W")), message("W", *fields))
    assert asked(wide).fields == {"id": "bigint", "wide": None}


def test_imports_are_those_that_it_refers_to() -> None:
    """B12: and their messages are no choice: no record can name them."""
    inner = file(message("In", field("x", "int32")), name="a/in.proto")
    outer = file(message("M", field("i", ".t.In")), dependency=["a/in.proto"])
    assert asked(inner, outer).fields == {"i": "struct<x:int>"}
    with pytest.raises(SubjectUnreadable) as refused:
        asked(inner, outer, message="t.In")
    assert refused.value.cause.endswith(
        "it has no message t.In: name another one of it by message: t.M"
    )
    with pytest.raises(SubjectUnreadable) as refused:
        asked(outer)
    assert "a/in.proto" in refused.value.cause


def test_the_first_message_has_the_columns_if_all_others_are_parts_of_it() -> None:
    """B12: as writers take it; else the file must say which one, and a part may be it."""
    within = message("Deep", field("x", "int32"))
    line = message("Line", field("deep", ".t.Deep", many=True), nested=(message("In"),))
    assert asked(file(ORDER, line, within)).message == "t.Order"
    for several in (file(LINE, ORDER), file(ORDER, LINE, message("Refund"))):
        with pytest.raises(SubjectUnreadable) as refused:
            asked(several)
        assert "it has several messages" in refused.value.cause
        assert "t.Order" in refused.value.cause
        assert asked(several, message="t.Order").fields["id"] == "bigint"
    out = message("Out", nested=(LINE, entry("E", "int32", "int32")))
    assert asked(file(ORDER, LINE, out), message="t.Out.Line").fields["pieces"] == "int"


@pytest.mark.parametrize(
    ("schema", "named", "said"),
    [
        (file(), None, "it has no message"),
        (file(*(message(f"M{at}") for at in range(99))), "t.X", "no message t.X"),
        (file(message("M", nested=(entry("E", "int32", "int32"),))), "t.M.E", "entry of a map"),
        (file(message("M", field("a", "int32"), field("a", "string"))), None, "no schema"),
        (file(message("M", field("a", "int32"), field("b", "int32", number=1))), None, "no schema"),
        (file(message("M", field("a:int,b", "int32"))), None, "no schema of Protobuf"),
        ("AAAA", None, "no descriptor of Protobuf"),
    ],
)
def test_a_subject_without_such_a_message_is_refused(
    schema: Any, named: str | None, said: str
) -> None:
    """B12: also what no registry should hold."""
    with pytest.raises(SubjectUnreadable) as refused:
        asked(schema, message=named)
    assert (refused.value.subject, refused.value.version) == ("s", 7)
    assert said in refused.value.cause
    with pytest.raises(SubjectUnreadable) as refused:
        asked(schema, message=named, kind="AVRO")
    assert "of the kind AVRO" in refused.value.cause


def test_a_message_without_fields_has_no_columns() -> None:
    """B12"""
    with pytest.raises(SubjectUnreadable) as refused:
        asked(file(message("M")))
    assert (refused.value.subject, refused.value.version) == ("s", 7)
    assert "no field" in refused.value.cause


def test_of_a_change_event_the_row_has_the_columns() -> None:
    """B12"""
    row = message("Row", field("id", "int32"))
    event = file(message("M", field("before", ".t.Row"), field("after", ".t.Row")), row)
    found = asked(event, within="after")
    assert (found.fields, found.message) == ({"id": "int"}, "t.M")
