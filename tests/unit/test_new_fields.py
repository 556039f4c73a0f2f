"""B20: fields that are not declared are passed over, or make dead letters, as the file says."""

from functools import partial
from typing import Any

import pytest
from tests.support.protobuf import FIRST, as_set, field, file, message
from tests.support.registry import framed
from tests.unit.test_avro import Known, record, written
from tests.unit.test_protobuf import Known as KnownMessages

from tidemark.decode import Decoder, Decoding, JsonDecoder, Reason
from tidemark.decode._avro import AvroDecoder
from tidemark.decode._protobuf import FEW, Messages, ProtobufDecoder, Registered
from tidemark.settings.decode import DecodeSettings
from tidemark.settings.fields import arrow_schema
from tidemark.settings.fingerprint import fingerprint
from tidemark.settings.pipeline import Pipeline
from tidemark.spark.record_decoder import decoder_of
from tidemark.spark.specs import decoding_of

COLUMNS = arrow_schema({"a": "int", "s": "struct<x:int>", "l": "array<struct<x:int>>"})


def reasons(decoder: Decoder, values: list[bytes | None]) -> list[Reason | None]:
    """Of each value why it is no row; alone the same as in company."""
    found = {one.index: one.reason for one in decoder.decode(values).rejected}
    for index, value in enumerate(values):
        alone = [one.reason for one in decoder.decode([value]).rejected]
        assert alone == [found[one] for one in (index,) if one in found]
    return [found.get(index) for index in range(len(values))]


@pytest.mark.parametrize("refuses", [False, True])
def test_json(refuses: bool) -> None:
    """B20: at every depth of what is declared."""
    told = Reason.NEW_FIELD if refuses else None
    values: list[bytes | None] = [
        b'{"a":1,"s":{"x":1},"l":[{"x":1}]}',
        b'{"a":1,"new":{"x":1}}',
        b'{"s":{"new":null}}',
        b'{"l":[{},{"new":1}]}',
        b'{"A":1}',
    ]
    read = JsonDecoder(COLUMNS, refuses_new=refuses)
    assert reasons(read, values) == [None, told, told, told, told]
    assert reasons(read, values * FEW) == [None, told, told, told, told] * FEW
    flat = JsonDecoder(arrow_schema({"a": "int"}), refuses_new=refuses)
    assert reasons(flat, [b'{"a":1}', b'{"a":1,"new":1}']) == [None, told]


@pytest.mark.parametrize("refuses", [False, True])
def test_avro(refuses: bool) -> None:
    """B20: by the writer's schema, whatever it wrote."""
    inner, wide = record(("x", "int"), name="I"), record(("x", "int"), ("y", "int"), name="W")
    schemas = [
        record(("a", "int"), ("s", inner)),
        record(("a", "int"), ("new", ["null", "int"])),
        record(("s", ["null", wide])),
        record(("l", {"type": "array", "items": wide})),
    ]
    data: list[Any] = [{"a": 1, "s": {"x": 1}}, {"a": 1, "new": None}, {"s": None}, {"l": []}]
    values: list[bytes | None] = [
        framed(number, written(*both))
        for number, both in enumerate(zip(schemas, data, strict=True), 1)
    ]
    told = Reason.NEW_FIELD if refuses else None
    read = AvroDecoder(COLUMNS, Known(*schemas), refuses_new=refuses)  # type: ignore[arg-type]
    assert reasons(read, values) == [None, told, told, told]
    assert reasons(read, values * 20) == [None, told, told, told] * 20


@pytest.mark.parametrize("refuses", [False, True])
def test_protobuf(refuses: bool) -> None:
    """B20: by the writer's schema, and by fields that this does not know."""
    inner = message("I", field("x", "int32"))
    wide = message("W", field("x", "int32"), field("y", "int32"))
    schemas = [
        file(message("M", field("a", "int32"), field("s", ".t.I")), inner),
        file(message("M", field("a", "int32"), field("new", "int32"))),
        file(message("M", field("s", ".t.W")), wide),
    ]
    known: Any = KnownMessages(*schemas)
    reading = partial(Messages, schema=COLUMNS, refuses_new=refuses)
    values: list[bytes | None] = [
        framed(1, b"\x08\1\x12\2\x08\1", FIRST),
        framed(2, b"", FIRST),
        framed(3, b"", FIRST),
        framed(1, b"\x78\1", FIRST),
        framed(1, b"\x12\2\x78\1", FIRST),
    ]
    told = Reason.NEW_FIELD if refuses else None
    read = ProtobufDecoder(COLUMNS, Registered(known, reading))
    assert reasons(read, values) == [None, told, told, told, told]
    assert reasons(read, values * FEW) == [None, told, told, told, told] * FEW


def test_the_file_says_it_for_values_and_for_keys() -> None:
    """B20: and it is part of the fingerprint."""
    section = {"schema": {"a": "int"}, "on_new_field": "refuse"}
    settings = DecodeSettings.model_validate(section | {"key": section})
    decoding = decoding_of(settings, {})
    assert decoding.refuses_new
    assert decoding.key
    assert decoding.key.refuses_new
    described = Decoding("protobuf", COLUMNS, refuses_new=True, message="t.M",
                         descriptors=as_set(file(message("M", field("a", "int32")))))  # fmt: skip
    for one in (decoding, described):
        assert decoder_of(one).decode([b'{"a":1,"b":1}', b"\x78\1"]).rows.num_rows == 0
    loaded = Pipeline.model_validate(
        {
            "region": "r",
            "kafka": {"connection": "k", "topics": ["t"]},
            "decode": section,
            "target": {"connection": "w", "table": "public.t"},
        }
    )
    assert fingerprint(loaded)["decode.on_new_field"] == "refuse"
