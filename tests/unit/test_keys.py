"""B12: keys of records as columns beside those of their values."""

from typing import Any

import pytest
from confluent_kafka import Message
from tests.support.protobuf import as_set, field, file, message

from tidemark.decode import Decoding, Reason
from tidemark.kafka.headers import headers_of
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.errors import FieldsOfOneName
from tidemark.settings.fields import arrow_schema
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.record_decoder import RecordDecoder
from tidemark.spark.specs import decoding_of

SECTION: dict[str, Any] = {"schema": {"id": "int"}, "key": {"schema": {"id": "bigint"}}}
GUID = b"\1" + bytes(16)


def decoder(**changes: Any) -> RecordDecoder:
    return RecordDecoder(decoding_of(DecodeSettings.model_validate(SECTION | changes), {}))


def record(key: bytes | None, value: bytes | None, **headers: bytes) -> Message:
    return Message(key=key, value=value, headers=list(headers.items()))


def test_a_row_has_the_fields_of_its_key() -> None:
    """B12: without a key nulls; a key that can't be read makes a dead letter, as a value does."""
    records = [
        record(b'{"id":1}', b'{"id":5}'),
        record(b'{"id":"a"}', b'{"id":6}'),
        record(None, b'{"id":7}'),
        record(b'{"id":8}', b"no JSON"),
        record(b"8", b"no JSON"),
        record(b"", b'{"id":9}'),
        record(b'{"other":1}', b'{"id":10}'),
        record(b'{"id":null,"other":1}', b'{"id":11}'),
    ]
    read = decoder()
    decoded = read.decode(records, headers_of)
    assert read.schema.names == ["id", "key_id"]
    assert decoded.rows.to_pylist() == [
        {"id": 5, "key_id": 1},
        {"id": 7, "key_id": None},
        {"id": 11, "key_id": None},
    ]
    assert decoded.kept.to_pylist() == [0, 2, 7]
    told = [(one.index, one.reason, one.detail[:5] == "key: ") for one in decoded.rejected]
    assert told == [
        (1, Reason.WRONG_TYPE, True),
        (3, Reason.INVALID_JSON, False),
        (4, Reason.INVALID_JSON, False),
        (5, Reason.EMPTY_VALUE, True),
        (6, Reason.NO_DECLARED_FIELD, True),
    ]
    for index, one in enumerate(records):
        assert len(read.decode([one], headers_of).kept) == (index in (0, 2, 7))


def test_a_tombstone_still_has_its_key() -> None:
    """B12: its row knows which key is gone."""
    decoded = decoder(metadata=["tombstone"]).decode([record(b'{"id":1}', None)], headers_of)
    assert decoded.rows.to_pylist() == [{"id": None, "key_id": 1}]


def test_keys_may_be_bytes_or_of_another_format() -> None:
    """B12"""
    raw = decoder(key={"format": "raw"}).decode(
        [record(b"a", b'{"id":1}'), record(None, b'{"id":null}')], headers_of
    )
    assert raw.rows.column("key_value").to_pylist() == [b"a", None]
    descriptors = as_set(file(message("K", field("id", "int64"))))
    key = Decoding("protobuf", arrow_schema({"id": "bigint"}), takes_null=True,
                   descriptors=descriptors, message="t.K")  # fmt: skip
    read = RecordDecoder(Decoding("json", arrow_schema({"a": "int"}), key=key))
    decoded = read.decode([record(b"\x08\5", b'{"a":1}'), record(None, b'{"a":2}')], headers_of)
    assert decoded.rows.to_pylist() == [{"a": 1, "key_id": 5}, {"a": 2, "key_id": None}]


def test_a_key_has_a_header_of_its_own() -> None:
    """B12"""
    key = {"framing": "headers", "schema": {"id": "int"}}
    one = record(b'{"id":1}', b'{"id":5}', __key_schema_id=GUID)
    other = record(b'{"id":1}', b'{"id":5}', __value_schema_id=GUID)
    decoded = decoder(key=key).decode([one, other], headers_of)
    assert decoded.rows.to_pylist() == [{"id": 5, "key_id": 1}]
    assert [rejected.reason for rejected in decoded.rejected] == [Reason.NOT_FRAMED]


def test_columns_that_are_known_late_are_refused_before_anything_is_read() -> None:
    """B12: those of a decoder of one's own, or of raw bytes."""
    section = {"format": "tests.support.own_decoders:Words", "schema": {}}
    own = decoder(**section, key={"format": "raw"})
    assert "key_value" in own.schema.names
    with pytest.raises(FieldsOfOneName) as refused:
        decoder(schema={"key_value": "int"}, key={"format": "raw"})
    assert refused.value.names == ("key_value", "key_value")


def test_the_key_is_part_of_the_fingerprint_and_of_the_connections() -> None:
    """B12"""
    key = {"format": "avro", "registry": "keys", "schema": {"id": "bigint"}}
    loaded = Pipeline.model_validate(
        {
            "region": "r",
            "kafka": {"connection": "k", "topics": ["t"]},
            "decode": SECTION | {"key": key},
            "target": {"connection": "w", "table": "public.t"},
        }
    )
    assert loaded.connections == {"k", "w", "keys"}
    found = fingerprint(loaded)
    assert found["decode.key.format"] == "avro"
    assert found["decode.key.schema.id"] == "bigint"
