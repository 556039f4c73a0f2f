"""B12: JSON behind the id of a schema."""

import json
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka import Message
from tests.support.registry import framed

from tidemark.decode import Decoding, Reason
from tidemark.kafka.headers import headers_of
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.fields import arrow_schema
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.record_decoder import RecordDecoder, decoder_of
from tidemark.spark.specs import decoding_of


def test_json_is_read_behind_its_id() -> None:
    """B12: without a registry; what has no id, or no JSON behind it, keeps its place."""
    fields = {"a": "int"}
    made = decoder_of(Decoding("json", arrow_schema(fields), framing="registry"))
    values = [
        framed(7, b'{"a":0}'),
        b'{"a":1}',
        framed(UUID(int=5), b' {"a":2}'),
        None,
        b"",
        framed(7, b"{"),
        framed(7, b""),
        b"\0\0\0",
        framed(8, json.dumps({"a": 8}).encode()),
    ]
    decoded = made.decode(values)
    assert decoded.rows.to_pylist() == [{"a": 0}, {"a": 2}, {"a": 8}]
    assert decoded.kept.equals(pa.array([0, 2, 8], pa.int64()))
    assert [(one.index, one.reason) for one in decoded.rejected] == [
        (1, Reason.NOT_FRAMED),
        (3, Reason.NULL_VALUE),
        (4, Reason.EMPTY_VALUE),
        (5, Reason.INVALID_JSON),
        (6, Reason.EMPTY_VALUE),
        (7, Reason.NOT_FRAMED),
    ]
    for index, value in enumerate(values):
        alone = made.decode([value])
        assert len(alone.kept) == (index in (0, 2, 8))


def test_the_setting_is_for_formats_with_ids() -> None:
    """B12: and part of the fingerprint."""
    settings = DecodeSettings.model_validate({"schema": {"a": "int"}, "framing": "registry"})
    assert decoding_of(settings, {}).framing == "registry"
    file = {
        "region": "r",
        "kafka": {"connection": "k", "topics": ["t"]},
        "decode": {"schema": {"a": "int"}, "framing": "registry"},
        "target": {"connection": "w", "table": "public.t"},
    }
    assert fingerprint(Pipeline.model_validate(file))["decode.framing"] == "registry"


GUID = UUID(int=5)
IDS = {"__value_schema_id": b"\1" + GUID.bytes}
NOT_FRAMED, UNREADABLE = Reason.NOT_FRAMED, Reason.INVALID_JSON


@pytest.mark.parametrize(
    ("value", "headers", "expected"),
    [
        (b'{"a":1}', [*IDS.items()], 1),
        (b'{"a":1}', [("x", None), *IDS.items(), *IDS.items()], 1),
        (framed(7, b'{"a":1}'), [], 1),
        (framed(7, b'{"a":1}'), [("__value_schema_id", None)], 1),
        (framed(7, b'{"a":1}'), [*IDS.items()], UNREADABLE),
        (b'{"a":1}', [("__value_schema_id", framed(7, b""))], 1),
        (b'{"a":1}', [("__key_schema_id", b"\1" + GUID.bytes)], NOT_FRAMED),
        (b'{"a":1}', [("__value_schema_id", b"")], NOT_FRAMED),
        (b'{"a":1}', [("__value_schema_id", b"\1" + GUID.bytes + b" ")], NOT_FRAMED),
        (b'{"a":1}', [*IDS.items(), ("__value_schema_id", framed(7, b""))], NOT_FRAMED),
        (b'{"a":1}', [], NOT_FRAMED),
        (b"", [*IDS.items()], Reason.EMPTY_VALUE),
        (None, [*IDS.items()], Reason.NULL_VALUE),
    ],
)
def test_an_id_may_stand_in_a_header(value: bytes | None, headers: Any, expected: Any) -> None:
    """B12: or in front, where no header has one; alone the same as in company."""
    read = RecordDecoder(Decoding("json", arrow_schema({"a": "int"}), framing="headers"))
    told, good = Message(value=value, headers=headers), Message(value=framed(7, b'{"a":0}'))
    for records in ([told], [good, told, good]):
        decoded = read.decode(records, headers_of)
        found = [*decoded.rows.column("a").to_pylist(), *(one.reason for one in decoded.rejected)]
        assert sorted(found, key=str) == sorted([expected, *[0] * (len(records) - 1)], key=str)
        assert {one.index for one in decoded.rejected} <= {records.index(told)}


def test_records_whose_headers_cannot_be_had_are_told() -> None:
    """B12"""
    read = RecordDecoder(Decoding("json", arrow_schema({"a": "int"}), framing="headers"))
    decoded = read.decode([Message(value=framed(7, b'{"a":0}'))], lambda _: None)
    assert [one.reason for one in decoded.rejected] == [NOT_FRAMED]


@pytest.mark.parametrize("format", ["avro", "protobuf"])
def test_ids_in_headers_are_for_formats_with_a_registry_too(format: str) -> None:
    """B12"""
    given = {"format": format, "registry": "r", "schema": {"a": "int"}, "framing": "headers"}
    assert DecodeSettings.model_validate(given).framing == "headers"
