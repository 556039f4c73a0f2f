"""B20: records of another kind, and what Kafka Connect puts around a row or into it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Message
from pydantic import ValidationError
from tests.support.protobuf import as_set, field, file, message
from tests.support.registry import framed
from tests.unit.test_avro import Known, record, written

from tidemark.decode import Decoding, Reason, formats
from tidemark.decode._avro import FEW
from tidemark.decode._protobuf import FEW as FEW_MESSAGES
from tidemark.decode.errors import DescriptorUnfit
from tidemark.kafka.headers import headers_of
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.fields import arrow_schema
from tidemark.spark.record_decoder import RecordDecoder, decoder_of
from tidemark.spark.specs import decoding_of

FIELDS = arrow_schema({"id": "bigint", "name": "string", "at": "struct<x:int>"})
ROW = {"id": 1, "name": None, "at": None}
NULLS = dict.fromkeys(FIELDS.names)


def as_bytes(document: Any) -> bytes | None:
    return (
        document
        if document is None or isinstance(document, bytes)
        else json.dumps(document).encode()
    )


def fates(decoding: Decoding, values: Sequence[Any]) -> list[Any]:
    """A row, or the reason why there is none, for each; alone the same as together."""
    made = decoder_of(decoding)

    def told(some: list[bytes | None]) -> list[Any]:
        found = made.decode(some)
        rows = dict(zip(found.kept.to_pylist(), found.rows.to_pylist(), strict=True))
        by_index: dict[int, Any] = rows | {one.index: one.reason for one in found.rejected}
        return [by_index[index] for index in range(len(some))]

    given = [as_bytes(one) for one in values]
    together = told(given)
    assert [told([one])[0] for one in given] == together
    return together


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"order_id": 1, "total": 5},
        {"ID": 1, "Name": "x"},
        {"schema": {"type": "struct"}, "payload": {"id": 1}},
        {"data": {"id": 1, "name": "x"}},
        {"": None, "\0": 1, "\ud83d\ude00": 2},
    ],
)
@pytest.mark.parametrize("framing", [None, "registry"])
def test_a_record_with_none_of_the_declared_fields_is_no_row(
    other: dict[str, Any], framing: str | None
) -> None:
    """B20, G162: a declared field that is null is there; the file may let such records be rows."""
    front = b"\0\0\0\0\1" if framing else b""
    documents: list[dict[str, Any]] = [{"id": 1}, other, {"at": None}, {"at": {}}]
    values = [front + json.dumps(one).encode() for one in documents]
    decoding = Decoding("json", FIELDS, framing=framing)
    rows = [ROW, Reason.NO_DECLARED_FIELD, NULLS, NULLS | {"at": {"x": None}}]
    assert fates(decoding, values) == rows
    rows[1] = NULLS
    assert fates(Decoding("json", FIELDS, framing=framing, takes_no_field=True), values) == rows


def test_a_record_without_a_value_is_judged_as_ever() -> None:
    """G162: it is a row of nulls where the file asks for tombstones."""
    assert fates(Decoding("json", FIELDS), [None, {}]) == [
        Reason.NULL_VALUE,
        Reason.NO_DECLARED_FIELD,
    ]
    taking = Decoding("json", FIELDS, takes_null=True)
    assert fates(taking, [None, {}]) == [NULLS, Reason.NO_DECLARED_FIELD]


def test_other_faults_of_a_value_are_told_first() -> None:
    """G162"""
    values = [b'{"q":1}x', b'{"q":"\xff"}', {"q": 1}, b"[]"]
    reasons = [Reason.TRAILING_DATA, Reason.INVALID_UTF8, Reason.NO_DECLARED_FIELD]
    assert fates(Decoding("json", FIELDS), values) == [*reasons, Reason.NOT_AN_OBJECT]
    refusing = Decoding("json", FIELDS, refuses_new=True)
    assert fates(refusing, [{"q": 1}, {}]) == [Reason.NEW_FIELD, Reason.NO_DECLARED_FIELD]


def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op}


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_row_of_a_change_event_is_judged_likewise(wrapped: bool) -> None:
    """G162: of a deletion too, unless the record's key tells which row it deletes."""
    events = [
        change("c", after={"id": 1}),
        change("c", after={"order_id": 1}),
        change("u", {"id": 1}, {"order_id": 1}),
        change("u", {"order_id": 1}, {"name": None}),
        change("d", {"order_id": 1}),
        change("d", {"id": 1}),
        {"ts_ms": 1},
        {"status": "BEGIN", "id": "571", "event_count": None},
        {"source": {}, "databaseName": "shop", "ddl": "CREATE TABLE t", "tableChanges": []},
    ]
    values = [{"schema": {}, "payload": one} for one in events] if wrapped else events
    none, no_change = Reason.NO_DECLARED_FIELD, Reason.NOT_A_CHANGE
    kept = {"deleted": False}
    found = fates(Decoding("json", FIELDS, envelope="debezium"), values)
    assert found[:4] == [ROW | kept, none, none, NULLS | kept]
    assert found[4:] == [none, ROW | {"deleted": True}, no_change, no_change, no_change]
    keyed = Decoding("json", FIELDS, envelope="debezium", key=Decoding("json", FIELDS))
    assert fates(keyed, values)[:5] == [*found[:4], NULLS | {"deleted": True}]


def avro(monkeypatch: pytest.MonkeyPatch, *schemas: Any) -> None:
    monkeypatch.setattr(formats, "registry_of", lambda _: Known(*schemas))


@pytest.mark.parametrize("many", [1, FEW])
def test_avro_of_another_record_is_no_row(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """G162: the writer's schema tells; of a union each branch by itself; beside it others."""
    user, order = record(("id", "long"), name="User"), record(("total", "long"), name="Order")
    nothing = record(name="Nothing")
    avro(monkeypatch, user, order, nothing, [user, order])
    values = [
        framed(1, written(user, {"id": 1})),
        framed(2, written(order, {"total": 1})),
        framed(3, b""),
        framed(4, written([user, order], ("User", {"id": 1}))),
        framed(4, written([user, order], ("Order", {"total": 1}))),
    ] * many
    fields = arrow_schema({"id": "bigint", "name": "string"})
    none, row = Reason.NO_DECLARED_FIELD, {"id": 1, "name": None}
    assert fates(Decoding("avro", fields), values) == [row, none, none, row, none] * many
    nulls = {"id": None, "name": None}
    taking = Decoding("avro", fields, takes_no_field=True)
    assert fates(taking, values) == [row, nulls, nulls, row, nulls] * many


def test_the_row_of_a_change_event_in_avro_is_judged_likewise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G162"""

    def envelope(name: str, *fields: Any) -> Any:
        row = record(*fields, name=name)
        members = ("before", ["null", row]), ("after", ["null", name]), ("op", "string")
        return record(*members, name=f"{name}Envelope")

    user, order = envelope("User", ("id", "long")), envelope("Order", ("total", "long"))
    avro(monkeypatch, user, order)
    values = [
        framed(1, written(user, change("c", None, {"id": 1}))),
        framed(2, written(order, change("c", None, {"total": 1}))),
        framed(2, written(order, change("d", {"total": 1}))),
    ]
    decoding = Decoding("avro", arrow_schema({"id": "bigint"}), envelope="debezium")
    none = Reason.NO_DECLARED_FIELD
    assert fates(decoding, values) == [{"id": 1, "deleted": False}, none, none]


@pytest.mark.parametrize("many", [1, FEW_MESSAGES])
def test_a_message_of_another_type_is_no_row(many: int) -> None:
    """G162: by its place in a schema, or because nothing of it is known; defaults are values."""
    descriptors = as_set(file(message("User", field("id", "int64"), field("more", "int64"))))
    fields = arrow_schema({"id": "bigint", "name": "string"})
    decoding = Decoding("protobuf", fields, descriptors=descriptors, message="t.User")
    row, none = {"id": 0, "name": None}, Reason.NO_DECLARED_FIELD
    values = [b"\x08\1", b"", b"\x10\1", b"\x52\1x", b"\x10\1\x52\1x", b"\x08\0\x52\1x"]
    values *= many
    assert fates(decoding, values) == [row | {"id": 1}, row, row, none, row, none] * many
    taking = Decoding("protobuf", fields, descriptors=descriptors, message="t.User",
                      takes_no_field=True)  # fmt: skip
    assert fates(taking, values)[3] == row


WRAPPED = [
    {"schema": {"type": "struct"}, "payload": {"id": 1}},
    {"schema": None, "payload": {"id": 1}},
    {"id": 1},
    b' {"schema":{}, "payload" : {"id": 1} }\n',
]


@pytest.mark.parametrize("value", WRAPPED)
@pytest.mark.parametrize("framing", [None, "registry"])
def test_both_shapes_of_connects_json_are_read(value: Any, framing: str | None) -> None:
    """B20, G163: with a schema beside it or without; a new field is one of the row."""
    data = (b"\0\0\0\0\1" if framing else b"") + (as_bytes(value) or b"")
    decoding = Decoding("json", FIELDS, envelope="connect", framing=framing, refuses_new=True)
    assert fates(decoding, [data]) == [ROW]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"schema": {}, "payload": None}, Reason.NULL_VALUE),
        ({"schema": {}, "payload": {}}, Reason.NO_DECLARED_FIELD),
        ({"schema": {}, "payload": {"other": 1}}, Reason.NO_DECLARED_FIELD),
        ({"schema": {}, "payload": 5}, Reason.NOT_AN_OBJECT),
        ({"schema": {}, "payload": {"id": "x"}}, Reason.WRONG_TYPE),
        ({"schema": "public", "payload": {"id": 1}}, Reason.NO_DECLARED_FIELD),
        ({"schema": {}, "payload": {"id": 1}, "more": 1}, Reason.NO_DECLARED_FIELD),
        (b'{"schema":{},"payload":{"id":1},"payload":{"id":2}}', Reason.DUPLICATE_KEY),
        (b'{"schema":0,"schema":{},"payload":{"id":1}}', Reason.DUPLICATE_KEY),
        (
            b'{"schema":{},"payload":{"id":1},"payload":{"q":' + b"9" * 5000 + b"}}",
            Reason.DUPLICATE_KEY,
        ),
        (b'{"schema":{},"payload":{"id":1}}x', Reason.TRAILING_DATA),
        (b'{"schema":{},"payload":{"id":1}', Reason.INVALID_JSON),
        (b'{"schema":{},"payload":' + b"[" * 99_999, Reason.TOO_DEEP),
        (None, Reason.NULL_VALUE),
    ],
)
def test_what_is_no_row_within_is_refused(value: Any, reason: Reason) -> None:
    """G163"""
    decoding = Decoding("json", FIELDS, envelope="connect")
    assert fates(decoding, [{"id": 1}, value, {"id": 1}]) == [ROW, reason, ROW]


def test_keys_are_read_in_both_shapes_and_judged_too() -> None:
    """G162, G163: a key that has none of its fields is none; a record may have no key."""
    keys = [b'{"id":1}', b'{"schema":{},"payload":{"id":1}}', b'{"other":1}', None]

    def told(**key: Any) -> list[Any]:
        section = {"schema": {"v": "int"}, "key": {"schema": {"id": "int"}, **key}}
        read = RecordDecoder(decoding_of(DecodeSettings.model_validate(section), {}))
        found = read.decode([Message(key=one, value=b'{"v":1}') for one in keys], headers_of)
        rows = dict(zip(found.kept.to_pylist(), found.rows["key_id"].to_pylist(), strict=True))
        by_index = rows | {one.index: one.reason for one in found.rejected}
        return [by_index[index] for index in range(len(keys))]

    none = Reason.NO_DECLARED_FIELD
    assert told() == [1, none, none, None]
    assert told(envelope="connect") == [1, 1, none, None]
    assert told(on_no_field="row") == [1, None, None, None]


FLATTENED = {"id": "bigint", "__deleted": "boolean"}


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ('"true"', True),
        ('"false"', False),
        ("true", True),
        ("false", False),
        ("null", None),
        ('"TRUE"', Reason.WRONG_TYPE),
        ('"1"', Reason.WRONG_TYPE),
        ("1", Reason.WRONG_TYPE),
    ],
)
@pytest.mark.parametrize("envelope", [None, "connect"])
def test_a_flattened_deletion_is_read_as_text_and_as_boolean(
    said: str, read: Any, envelope: str | None
) -> None:
    """B20, G164: as ExtractNewRecordState writes it, in both shapes of Connect's JSON."""
    bare = b'{"id":1,"__deleted" : %b}' % said.encode()
    decoding = Decoding("json", arrow_schema(FLATTENED), envelope=envelope)
    expected = {"id": 1, "__deleted": read} if not isinstance(read, Reason) else read
    assert fates(decoding, [b'{"id":1}', bare])[1] == expected
    if envelope:
        assert fates(decoding, [b'{"schema":{},"payload":%b}' % bare]) == [expected]


def test_texts_that_only_hold_a_deletion_stay_as_they_are() -> None:
    """G164: a quote within a text is escaped, and names with one are not declared."""
    decoding = Decoding("json", arrow_schema(FLATTENED | {"note": "string"}))
    note = 'he wrote "__deleted":"true", and x"__deleted":"true"'
    values = [{"id": 1, "note": note}, {"id": 1, 'x"__deleted': "true"}]
    assert fates(decoding, values) == [
        {"id": 1, "__deleted": None, "note": note},
        {"id": 1, "__deleted": None, "note": None},
    ]


def test_a_field_within_another_tells_no_deletion() -> None:
    """G164: a text of that name there is a text, in whatever order; and no boolean."""
    text, flag = (FLATTENED | {"in": f"struct<__deleted:{kind}>"} for kind in ("string", "boolean"))
    inner, outer = '"in":{"__deleted":"true"}', '"__deleted":  "false" '
    values = [f"{{{one}}}".encode() for one in (inner, f"{inner},{outer}", f"{outer},{inner}")]
    told = [None, False, False]
    rows = [{"id": None, "__deleted": one, "in": {"__deleted": "true"}} for one in told]
    assert fates(Decoding("json", arrow_schema(text)), values) == rows
    assert fates(Decoding("json", arrow_schema(flag)), values) == [Reason.WRONG_TYPE] * 3
    within = message("In", field("__deleted", "string"))
    descriptors = as_set(file(message("M", field("in", ".t.In")), within))
    decoding = Decoding("protobuf", arrow_schema(flag), descriptors=descriptors, message="t.M")
    with pytest.raises(DescriptorUnfit):
        decoder_of(decoding)


@pytest.mark.parametrize("many", [1, FEW])
def test_a_flattened_deletion_is_read_of_avro(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """G164: a text, a boolean, or either that may be null."""
    kinds = ["string", "boolean", ["null", "string"]]
    schemas = [record(("id", "long"), ("__deleted", kind)) for kind in kinds]
    avro(monkeypatch, *schemas)
    data = [(1, "true"), (1, "false"), (1, "maybe"), (2, True), (3, None), (3, "true")]
    values = [
        framed(number, written(schemas[number - 1], {"id": 1, "__deleted": said}))
        for number, said in data
    ] * many
    expected = [{"id": 1, "__deleted": said} for said in (True, False, None, True, None, True)]
    found = fates(Decoding("avro", arrow_schema(FLATTENED)), values)
    expected[2] = Reason.WRONG_TYPE  # type: ignore[call-overload]
    assert found == expected * many


@pytest.mark.parametrize(("kind", "said"), [("string", b"\x12\4true"), ("bool", b"\x10\1")])
def test_a_flattened_deletion_is_read_of_protobuf_or_refused(kind: str, said: bytes) -> None:
    """G164, G165"""
    descriptors = as_set(file(message("M", field("id", "int64"), field("__deleted", kind))))
    data = {"descriptors": descriptors, "message": "t.M"}
    decoding = Decoding("protobuf", arrow_schema(FLATTENED), **data)  # type: ignore[arg-type]
    values = [b"\x08\1" + said] * FEW_MESSAGES
    assert fates(decoding, values) == [{"id": 1, "__deleted": True}] * FEW_MESSAGES
    untold = Decoding("protobuf", arrow_schema({"id": "int"}), refuses_deletion=True, **data)  # type: ignore[arg-type]
    values += [b"\x08\1"]
    assert fates(untold, values) == [Reason.DELETION] * FEW_MESSAGES + [{"id": 1}]


def test_a_flattened_deletion_that_nothing_reads_is_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G165: other values of such a field are passed over, as those of others are."""
    id_alone = arrow_schema({"id": "int"})
    decoding = Decoding("json", id_alone, envelope="connect", refuses_deletion=True)
    said = ["true", True, "false", False, None, 1, "maybe"]
    rows = [{"id": 1, "__deleted": one} for one in said]
    expected = [Reason.DELETION] * 2 + [{"id": 1}] * 5
    assert fates(decoding, rows) == expected
    assert fates(decoding, [{"schema": {}, "payload": one} for one in rows]) == expected
    assert fates(Decoding("json", id_alone), rows) == [{"id": 1}] * 7
    kinds: list[Any] = ["string", "boolean", ["null", "string"], "int"]
    schemas = [record(("id", "long"), ("__deleted", kind)) for kind in kinds]
    avro(monkeypatch, *schemas)
    data = [(1, "true"), (1, "no"), (2, True), (2, False), (3, "true"), (3, None), (4, 1)]
    values = [
        framed(number, written(schemas[number - 1], {"id": 1, "__deleted": one}))
        for number, one in data
    ]
    found = fates(Decoding("avro", id_alone, refuses_deletion=True), values * FEW)
    gone, row = Reason.DELETION, {"id": 1}
    assert found == [gone, row, gone, row, gone, row, row] * FEW


@pytest.mark.parametrize(
    "section",
    [
        {"format": "avro", "registry": "r", "envelope": "connect"},
        {"envelope": "connect", "source": ["lsn"]},
        {"format": "raw", "schema": {}, "on_no_field": "row"},
        {"format": "a:B", "schema": {}, "on_no_field": "row"},
        {"key": {"schema": {"id": "int"}, "envelope": "debezium"}},
        {"key": {"format": "raw", "envelope": "connect"}},
    ],
)
def test_settings_that_say_nothing_there_are_refused(section: dict[str, Any]) -> None:
    """B20"""
    with pytest.raises(ValidationError):
        DecodeSettings.model_validate({"schema": {"a": "int"}} | section)


def test_connects_envelope_adds_no_column_and_takes_other_settings() -> None:
    """B20: unlike that of Debezium, where other fields are usual."""
    section = {"schema": {"deleted": "int"}, "envelope": "connect", "on_new_field": "refuse"}
    settings = DecodeSettings.model_validate(section)
    assert RecordDecoder(decoding_of(settings, {})).schema.names == ["deleted"]
