"""B12: JSON behind the id of a schema."""

import json
from uuid import UUID

import pyarrow as pa
import pytest
from tests.support.registry import framed

from tidemark.decode import Decoding, Reason
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.fields import arrow_schema
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.decoders import decoder_of
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


def test_the_setting_is_for_json_alone() -> None:
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
    for other in (
        {"format": "raw"},
        {"format": "a:B"},
        {"format": "avro", "schema": {"a": "int"}, "registry": "r"},
    ):
        with pytest.raises(ValueError, match="takes no framing"):
            DecodeSettings.model_validate(other | {"framing": "registry"})
