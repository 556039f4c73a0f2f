"""B12, B20: change events of Debezium, as JSON and as Avro."""

import json
from base64 import b64encode, urlsafe_b64encode
from dataclasses import replace
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest
from tests.support.registry import framed
from tests.unit.test_avro import Known, record, written

from tidemark.decode import Decoding, JsonDecoder, Reason
from tidemark.decode._avro import AvroDecoder
from tidemark.decode._debezium import DebeziumDecoder, Unavailable, UnavailableDecoder
from tidemark.decode.port import OldKey
from tidemark.settings.fields import arrow_schema
from tidemark.spark.record_decoder import decoder_of

FIELDS = arrow_schema({"id": "int", "tags": "array<string>", "at": "struct<x:int>"})
DECODER = DebeziumDecoder(FIELDS, JsonDecoder)
OLD = {"id": 1, "tags": ["a"], "at": {"x": 1}}
NEW = {"id": 1, "tags": [], "at": None}


def event(op: str | None, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"lsn": 5}, "ts_ms": 1}


def told(*documents: Any) -> list[Any]:
    """A row, or the reason why there is none, for each; alone the same as together."""
    values = [json.dumps(one).encode() for one in documents]
    together = DECODER.decode(values)
    found: list[Any] = [None] * len(values)
    for index, row in zip(together.kept.to_pylist(), together.rows.to_pylist(), strict=True):
        found[index] = row
    assert [one.index for one in together.rejected] == sorted(
        one.index for one in together.rejected
    )
    for one in together.rejected:
        found[one.index] = one.reason
    for value, expected in zip(values, found, strict=True):
        alone = DECODER.decode([value])
        assert [*alone.rows.to_pylist(), *(one.reason for one in alone.rejected)] == [expected]
    return found


def test_an_event_is_its_row_and_whether_it_deletes() -> None:
    """B12, B20: with its schema inside or without."""
    events = [
        event("c", after=OLD),
        event("r", after=OLD),
        event("u", OLD, NEW),
        event("u", None, NEW),
        event("d", OLD),
        event("d", {"id": 1}),
    ]
    rows = [
        OLD | {"deleted": False},
        OLD | {"deleted": False},
        NEW | {"deleted": False},
        NEW | {"deleted": False},
        OLD | {"deleted": True},
        {"id": 1, "tags": None, "at": None, "deleted": True},
    ]
    assert told(*events) == rows
    assert told(*({"schema": {"type": "struct"}, "payload": one} for one in events)) == rows


def test_an_update_gives_the_row_before_where_a_column_changes() -> None:
    """B8, B12: of every type, and null; the row before is a deletion in front of the other."""
    made = DebeziumDecoder(FIELDS, JsonDecoder, old_key=OldKey(("id", "tags", "at"), is_key=False))
    changes: list[dict[str, Any]] = [{"id": None}, {"tags": ["b"]}, {"tags": None}]
    changes += [{"at": at} for at in ({"x": 2}, None, {"x": None})]
    others = [OLD | change for change in changes]
    events = [event("u", OLD, OLD), event("u", None, NEW), event("c", after=OLD)]
    events += [event("u", other, OLD) for other in others] + [event("t")]
    decoded = made.decode([json.dumps(one).encode() for one in events])
    pairs = [[other | {"deleted": True}, OLD | {"deleted": False}] for other in others]
    single = [one | {"deleted": False} for one in (OLD, NEW, OLD)]
    assert decoded.rows.to_pylist() == single + [row for pair in pairs for row in pair]
    assert decoded.kept.to_pylist() == [0, 1, 2, *(at for at in range(3, 9) for _ in range(2))]
    assert [one.index for one in decoded.rejected] == [9]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"id": 2}, {"id": 1}, [2, 1]),
        ({"id": 1}, {"id": 1}, [1]),
        ({"id": None}, {"id": 1}, [Reason.OLD_KEY_UNKNOWN]),
        ({}, {"id": 1}, [Reason.OLD_KEY_UNKNOWN]),
        ({"id": 2}, {"id": None}, [2, None]),
        ({"id": None}, {"id": None}, [None]),
    ],
)
def test_an_old_key_is_known_or_its_record_is_refused(before: Any, after: Any, told: Any) -> None:
    """B8, B12: whatever else of the row before is not told."""
    made = DebeziumDecoder(FIELDS, JsonDecoder, old_key=OldKey(("id",)))
    decoded = made.decode([json.dumps(event("u", before, after)).encode()])
    found = [row["id"] for row in decoded.rows.to_pylist()]
    assert [*found, *(one.reason for one in decoded.rejected)] == told


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (event("t"), Reason.NOT_A_CHANGE),
        (event("m", None, OLD), Reason.NOT_A_CHANGE),
        (event(None, OLD, NEW), Reason.NOT_A_CHANGE),
        (event("u", OLD), Reason.NOT_A_CHANGE),
        (event("d", None, NEW), Reason.NOT_A_CHANGE),
        (OLD, Reason.NOT_A_CHANGE),
        ({}, Reason.NOT_A_CHANGE),
        ({"payload": None}, Reason.NOT_A_CHANGE),
        ({"payload": {}}, Reason.NOT_A_CHANGE),
        (event("c", after=OLD) | {"payload": event("d", OLD)}, Reason.NOT_A_CHANGE),
        (event("c", after={"id": "x"}), Reason.WRONG_TYPE),
        (event("c", after=5), Reason.WRONG_TYPE),
    ],
)
def test_what_is_no_change_of_one_row_is_refused(document: Any, reason: Reason) -> None:
    """B12, B20: truncates too."""
    good = event("c", after=OLD)
    row = OLD | {"deleted": False}
    assert told(good, document, good) == [row, reason, row]
    assert told(event("t"), document, 5) == [Reason.NOT_A_CHANGE, reason, Reason.NOT_AN_OBJECT]


def test_a_record_without_a_value_is_refused_or_a_deletion() -> None:
    """B12, B20: which row it deletes stands in its key."""
    [rejected] = DECODER.decode([None]).rejected
    assert rejected.reason is Reason.NULL_VALUE
    taking = DebeziumDecoder(FIELDS, lambda schema: JsonDecoder(schema, takes_null=True))
    decoded = taking.decode([b"{}", None])
    assert decoded.rows.to_pylist() == [{"id": None, "tags": None, "at": None, "deleted": True}]
    assert decoded.kept.to_pylist() == [1]


def test_events_come_as_avro_too() -> None:
    """B12, B20"""
    row = record(("id", "int"), ("more", "string"), name="Value")
    schema = record(
        ("before", ["null", row]), ("after", ["null", "Value"]), ("op", "string"), name="Envelope"
    )
    data = [
        {"before": None, "after": {"id": 1, "more": "a"}, "op": "c"},
        {"before": {"id": 1, "more": "a"}, "after": None, "op": "d"},
        {"before": None, "after": None, "op": "t"},
    ]
    made = DebeziumDecoder(
        arrow_schema({"id": "bigint"}),
        lambda wire: AvroDecoder(wire, Known(schema)),  # type: ignore[arg-type]
    )
    decoded = made.decode([framed(1, written(schema, datum)) for datum in data])
    assert decoded.rows.to_pylist() == [{"id": 1, "deleted": False}, {"id": 1, "deleted": True}]
    assert [(one.index, one.reason) for one in decoded.rejected] == [(2, Reason.NOT_A_CHANGE)]


def test_what_the_source_says_are_columns_when_asked_for() -> None:
    """B20: numbers and texts; null where it says nothing."""
    read = DebeziumDecoder(FIELDS, JsonDecoder, ("lsn", "file"))
    bare = event("c", after=OLD) | {"source": {"lsn": 2**40, "file": "binlog.7", "other": 1}}
    inside = {"payload": event("d", OLD) | {"source": {"lsn": None}}}
    without = event("c", after=OLD) | {"source": None}
    wrong = event("c", after=OLD) | {"source": {"lsn": "5"}}
    decoded = read.decode([json.dumps(one).encode() for one in (bare, inside, without, wrong)])
    told = [(row["source_lsn"], row["source_file"]) for row in decoded.rows.to_pylist()]
    assert told == [(2**40, "binlog.7"), (None, None), (None, None)]
    assert [one.reason for one in decoded.rejected] == [Reason.WRONG_TYPE]


PLACEHOLDER = "__debezium_unavailable_value"
DATA = PLACEHOLDER.encode()


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ("string", PLACEHOLDER),
        ("string", b64encode(DATA).decode()),
        ("string", urlsafe_b64encode(DATA).decode()),
        ("string", DATA.hex()),
        ("string", json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
        ("binary", b64encode(DATA).decode()),
        ("array<string>", [PLACEHOLDER]),
        ("array<string>", [str(UUID(bytes=md5(DATA).digest(), version=3))]),
        ("array<binary>", [b64encode(DATA).decode()]),
        ("array<int>", list(DATA)),
        ("array<bigint>", list(DATA)),
        ("array<struct<key:string,value:string>>", [{"key": PLACEHOLDER, "value": PLACEHOLDER}]),
        ("struct<colour:string>", {PLACEHOLDER: PLACEHOLDER}),
        (
            "struct<wkb:binary,srid:int>",
            {"wkb": "AQEAACDmEAAAAAAA/IPXl8EAAAD8g9eXwQ==", "srid": 4326},
        ),
    ],
)
def test_what_the_source_did_not_send_is_no_data(declared: str, written: Any) -> None:
    """B20: in whatever form; of a row that is deleted it is null, for only its key matters."""
    fields = arrow_schema({"id": "int", "v": declared})
    made = DebeziumDecoder(fields, JsonDecoder)
    row = {"id": 1, "v": written}
    events = [
        event("u", None, row),
        event("d", row),
        event("u", row, {"id": 2}),
        event("c", after=row),
    ]
    inside = [{"payload": one} for one in events]
    decoded = made.decode([json.dumps(one).encode() for one in events + inside])
    rows = [{"id": 1, "v": None, "deleted": True}, {"id": 2, "v": None, "deleted": False}]
    assert decoded.rows.to_pylist() == rows * 2
    assert decoded.rows.schema == made.schema
    told = [(one.index, one.reason) for one in decoded.rejected]
    assert told == [(index, Reason.UNAVAILABLE) for index in (0, 3, 4, 7)]
    flat = UnavailableDecoder(fields, JsonDecoder, Unavailable())
    decoded = flat.decode([json.dumps(one).encode() for one in (row, {"id": 2}, 5, row)])
    assert decoded.rows.to_pylist() == [{"id": 2, "v": None}]
    assert decoded.kept.to_pylist() == [1]
    reasons = [Reason.UNAVAILABLE, Reason.NOT_AN_OBJECT, Reason.UNAVAILABLE]
    assert [one.reason for one in decoded.rejected] == reasons


def test_what_only_looks_like_a_placeholder_is_data() -> None:
    """B20: a text around it, another array, a null."""
    fields = arrow_schema(
        {"t": "string", "l": "array<string>", "n": "array<int>", "s": "struct<a:int>"}
    )
    rows: list[dict[str, object]] = [
        {"t": f"{PLACEHOLDER} ", "l": [PLACEHOLDER, "a"], "n": list(DATA[1:]), "s": {"a": 1}},
        {"t": None, "l": [None], "n": [None] * len(DATA), "s": None},
        {"t": "", "l": [], "n": None, "s": {"a": None}},
    ]
    made = DebeziumDecoder(fields, JsonDecoder)
    decoded = made.decode([json.dumps(event("u", None, one)).encode() for one in rows])
    assert decoded.rows.to_pylist() == [one | {"deleted": False} for one in rows]


def test_the_placeholder_is_the_one_that_the_connector_has() -> None:
    """B20: `hex:` says that it is one of bytes; without an envelope only a named one is none."""
    decoding = Decoding("json", arrow_schema({"v": "string"}))
    value, other = b'{"v":"%s"}' % DATA, b'{"v":"no"}'
    assert decoder_of(decoding).decode([value]).rows.num_rows == 1
    for placeholder in ("no", "hex:6e6f"):
        made = decoder_of(replace(decoding, placeholder=placeholder))
        decoded = made.decode([value, other])
        assert decoded.rows.to_pylist() == [{"v": PLACEHOLDER}]
        assert [one.reason for one in decoded.rejected] == [Reason.UNAVAILABLE]
    enveloped = decoder_of(replace(decoding, envelope="debezium", placeholder="no"))
    events = [json.dumps(event("c", after={"v": one})).encode() for one in (PLACEHOLDER, "no")]
    assert [one.index for one in enveloped.decode(events).rejected] == [1]
