"""What is expected of a schema registry, of a real one and of the server that stands in for it."""

import json
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import SchemaReference
from tests.support.protobuf import FIRST, field, file, message, serialized
from tests.support.registry import KnownRegistry, framed, registry
from tests.unit.test_avro import record, written

from tidemark.decode import Reason
from tidemark.decode._avro import AvroDecoder
from tidemark.decode._protobuf import Messages, ProtobufDecoder, Registered
from tidemark.decode.errors import RegistryGaveNoSchema, SubjectNotKnown
from tidemark.decode.port import Refusal
from tidemark.decode.registry import SERIALIZED, Registry, registry_config
from tidemark.decode.registry_columns import Asked, newest
from tidemark.encode.avro_rows import AvroRows
from tidemark.settings.fields import arrow_schema
from tidemark_local.stack import LocalStack

UNKNOWN = 987_654


@pytest.fixture(scope="module", params=["stand-in", "Apicurio"])
def known(request: pytest.FixtureRequest) -> Iterator[KnownRegistry]:
    """Either of them, running."""
    if request.param == "Apicurio":
        stack: LocalStack = request.getfixturevalue("stack")
        stack.up(["registry"])
        yield KnownRegistry(stack.registry.url)
    else:
        with registry() as found:
            yield found


@pytest.fixture
def opened(known: KnownRegistry) -> Registry:
    return Registry(registry_config(known.connection()))


@pytest.fixture
def subject() -> str:
    return f"s{uuid4().hex}-value"


def test_a_schema_is_had_by_its_id(known: KnownRegistry, opened: Registry, subject: str) -> None:
    """B12: one text has one id, another text another one."""
    first, second = record(("a", "int"), name=subject[:9]), record(("b", "int"), name=subject[:9])
    number = known.register(subject, first)
    assert known.register(subject, first) == number
    assert known.register(f"other-{subject}", first) == number
    assert known.register(subject, second) != number
    decoder = AvroDecoder(arrow_schema({"a": "int"}), opened)
    value = framed(number, written(first, {"a": 5}))
    assert decoder.decode([value]).rows.to_pylist() == [{"a": 5}]


def test_an_id_that_it_does_not_know(opened: Registry) -> None:
    """B12: is an answer about the record."""
    with pytest.raises(Refusal) as refused:
        opened.schema(UNKNOWN)
    assert refused.value.reason is Reason.UNKNOWN_SCHEMA


def test_no_bytes_make_it_unreachable(opened: Registry) -> None:
    """B12: they name numbers that no registry gives, and GUIDs that it may have no page for."""
    schema = arrow_schema({"a": "int"})
    junk = [
        b"\1junk of any othe\0",
        b"\0\xff\xfe\0j\0",
        b"\0\x80\0\0\0\0",
        b"\0\x7f\xff\xff\xff\0",
    ]
    of_messages = ProtobufDecoder(schema, Registered(opened, partial(Messages, schema=schema)))
    for decoder in (AvroDecoder(schema, opened), of_messages):
        rejected = decoder.decode(junk).rejected
        assert [one.reason for one in rejected] == [Reason.UNKNOWN_SCHEMA] * len(junk)


def test_what_a_schema_refers_to(known: KnownRegistry, opened: Registry, subject: str) -> None:
    """B12"""
    inner = record(("x", "int"), name="shop.Inner")
    known.register(f"inner-{subject}", inner)
    reference = SchemaReference("shop.Inner", f"inner-{subject}", 1)
    number = known.register(subject, record(("i", "shop.Inner"), name="shop.Outer"), reference)
    decoder = AvroDecoder(arrow_schema({"i": "struct<x:int>"}), opened)
    assert decoder.decode([framed(number, b"\2")]).rows.to_pylist() == [{"i": {"x": 1}}]


def test_a_schema_is_registered_once_under_its_subject(opened: Registry, subject: str) -> None:
    """B9, B12: what an output's rows are written by."""
    rows = AvroRows.of([("n", "bigint"), (subject[:9], "numeric(10,2)[]")])
    number = opened.register(subject, rows.text)
    assert opened.register(subject, rows.text) == number
    assert json.loads(opened.schema(number).text) == json.loads(rows.text)
    decoder = AvroDecoder(arrow_schema({"n": "bigint"}), opened)
    value = rows.encoded(number, b'{"n": -9223372036854775808}')
    assert decoder.decode([value]).rows.to_pylist() == [{"n": -(2**63)}]


def test_the_newest_version_of_a_subject(
    known: KnownRegistry, opened: Registry, subject: str
) -> None:
    """B12: asked anew each time."""
    with pytest.raises(SubjectNotKnown) as unknown:
        opened.latest(subject)
    assert unknown.value.subject == subject
    known.register(subject, record(("a", "int"), name=subject[:9]))
    assert opened.latest(subject)[0] == 1
    newest = record(("a", "int"), ("b", "int"), name=subject[:9])
    number = known.register(subject, newest)
    version, found = opened.latest(subject)
    assert (version, json.loads(found.text)) == (2, newest)
    assert known.client().get_latest_version(subject).schema_id == number


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF"])
def test_kinds_of_schemas(known: KnownRegistry, opened: Registry, subject: str, kind: str) -> None:
    """B12"""
    texts = {"AVRO": '"int"', "PROTOBUF": f'syntax = "proto3"; message M{subject[:8]} {{ }}'}
    number = known.register(subject, texts[kind], kind=kind)
    assert (opened.schema(number).kind, opened.schema(number).text) == (kind, texts[kind])


def test_it_answers_a_ping(known: KnownRegistry, opened: Registry) -> None:
    """B12"""
    assert opened.ping() == known.url


def test_a_schema_of_protobuf_as_a_descriptor(
    known: KnownRegistry, opened: Registry, subject: str
) -> None:
    """B12: with what it imports, as the client's serializer registers them; also the newest."""
    inner = file(message("In", field("x", "int32")), name="a/inner.proto")
    known.register(f"inner-{subject}", serialized(inner), kind="PROTOBUF")
    outer = file(message("M", field("i", ".t.In")), dependency=["a/inner.proto"])
    reference = SchemaReference("a/inner.proto", f"inner-{subject}", 1)
    number = known.register(subject, serialized(outer), reference, kind="PROTOBUF")
    columns = arrow_schema({"i": "struct<x:int>"})
    read = ProtobufDecoder(columns, Registered(opened, partial(Messages, schema=columns)))
    decoded = read.decode([framed(number, b"\x0a\2\x08\5", FIRST)])
    assert decoded.rows.to_pylist() == [{"i": {"x": 5}}]
    newer = file(message("N", field("i", ".t.In", many=True)), dependency=["a/inner.proto"])
    known.register(subject, serialized(newer), reference, kind="PROTOBUF")
    found = newest(opened, "protobuf", subject, Asked())
    assert (found.version, found.message) == (2, "t.N")
    assert found.fields == {"i": "array<struct<x:int>>"}


def test_a_text_of_protobuf_is_no_descriptor(
    known: KnownRegistry, opened: Registry, subject: str
) -> None:
    """B12: Confluent's registry would make one of it; where there is none, a file helps."""
    number = known.register(subject, 'syntax = "proto3"; message M { }', kind="PROTOBUF")
    for ask in (lambda: opened.serialized(number), lambda: opened.latest(subject, SERIALIZED)):
        with pytest.raises(RegistryGaveNoSchema) as answered:
            ask()
        assert answered.value.is_text_instead
