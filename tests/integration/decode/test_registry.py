"""B12: the schema registry's client beside a server that follows its API: answers and silence."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaReference, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from tests.support.protobuf import FIRST, field, file, message, serialized
from tests.support.registry import TestRegistry, basic, framed, registry
from tests.unit.test_avro import record, written

from tidemark.decode import Decoding, Reason
from tidemark.decode._avro import AvroDecoder
from tidemark.decode._protobuf import Messages, ProtobufDecoder, Registered
from tidemark.decode.errors import (
    RegistryClientRefused,
    RegistryExtraNested,
    RegistryFailed,
    RegistryGaveNoSchema,
    RegistryLoginInHost,
    RegistrySilent,
)
from tidemark.decode.port import Refusal
from tidemark.decode.registry import Page, Registry, flattened, registry_config
from tidemark.errors import InvalidSettings, Unreachable
from tidemark.kafka.headers import headers_of
from tidemark.settings.connections import Connection
from tidemark.settings.errors import ConnectionIncomplete, ConnectionKeysRefused
from tidemark.settings.fields import arrow_schema
from tidemark.spark.record_decoder import RecordDecoder

QUICK = {"max.retries": 0, "timeout": 5}
SCHEMA = record(("a", "int"))


@pytest.fixture
def known() -> Iterator[TestRegistry]:
    with registry() as found:
        yield found


def opened(known: TestRegistry, **changes: Any) -> Registry:
    extra = QUICK | changes.pop("extra", {})
    return Registry(registry_config(known.connection(extra=extra, **changes)))


def test_a_schema_is_fetched_once_by_number_or_by_guid(known: TestRegistry) -> None:
    """B12"""
    number = known.register("t-value", SCHEMA)
    one = opened(known)
    assert one.schema(number).text == one.schema(number).text == one.schema(number).text
    assert one.schema(str(known.guid(number))).kind == "AVRO"
    asked = [path for path in known.asked if path.startswith("GET /schemas/")]
    assert len(asked) == 1 or [path.split("/")[2] for path in asked] == ["ids", "guids"]


def test_references_come_with_a_schema(known: TestRegistry) -> None:
    """B12: also those of references, each once."""
    inner = record(("x", "int"), name="shop.Inner")
    known.register("inner", inner)
    middle = record(("i", "shop.Inner"), name="shop.Middle")
    known.register("middle", middle, SchemaReference("shop.Inner", "inner", 1))
    number = known.register(
        "t-value",
        record(("m", "shop.Middle"), ("i", "shop.Inner")),
        SchemaReference("shop.Middle", "middle", 1),
        SchemaReference("shop.Inner", "inner", 1),
    )
    made = AvroDecoder(
        arrow_schema({"m": "struct<i:struct<x:int>>", "i": "struct<x:int>"}), opened(known)
    )
    decoded = made.decode([framed(number, b"\2\4"), framed(known.guid(number), b"\6\10")])
    assert decoded.rows.to_pylist() == [
        {"m": {"i": {"x": 1}}, "i": {"x": 2}},
        {"m": {"i": {"x": 3}}, "i": {"x": 4}},
    ]


def test_references_that_fan_out_are_looked_at_once_each(known: TestRegistry) -> None:
    """B12: with two to each that is below it, twenty levels have a million paths."""
    made, levels = opened(known), 20
    known.register("l0", record(("x", "int"), name="L0"))
    for level in range(1, levels):
        below = [
            SchemaReference(name, f"l{level - 1}", 1) for name in (f"L{level - 1}", f"l{level - 1}")
        ]
        number = known.register(
            f"l{level}", record(("x", f"L{level - 1}"), name=f"L{level}"), *below
        )
    known.asked.clear()
    written = made.schema(number)
    assert len(flattened(written)) <= 2 * levels
    assert len(known.asked) <= 2 * levels
    for level in range(levels, 70):
        below = [SchemaReference(f"L{level - 1}", f"l{level - 1}", 1)]
        number = known.register(
            f"l{level}", record(("x", f"L{level - 1}"), name=f"L{level}"), *below
        )
    with pytest.raises(Refusal) as refused:
        made.schema(number)
    assert refused.value.reason is Reason.OTHER_SCHEMA


def of_protobuf(known: TestRegistry, **fields: str) -> ProtobufDecoder:
    columns = arrow_schema(fields)
    return ProtobufDecoder(columns, Registered(opened(known), partial(Messages, schema=columns)))


def test_what_a_protobuf_schema_imports_comes_with_it(known: TestRegistry) -> None:
    """B12: under the path by which it is imported; what everyone has is in no registry."""
    inner = file(message("In", field("x", "int32")), name="no matter")
    known.register("inner", serialized(inner), kind="PROTOBUF")
    middle = file(message("Mid", field("i", ".t.In")), dependency=["a/inner.proto"])
    reference = SchemaReference("a/inner.proto", "inner", 1)
    known.register("middle", serialized(middle), reference, kind="PROTOBUF")
    outer = file(
        message("M", field("m", ".t.Mid"), field("at", ".google.protobuf.Timestamp")),
        dependency=["a/middle.proto", "google/protobuf/timestamp.proto"],
    )
    number = known.register(
        "t-value",
        serialized(outer),
        SchemaReference("a/middle.proto", "middle", 1),
        kind="PROTOBUF",
    )
    made = of_protobuf(known, m="struct<i:struct<x:int>>", at="timestamp")
    data = b"\x0a\4\x0a\2\x08\5"
    values = [framed(one, data, FIRST) for one in (number, known.guid(number))]
    assert made.decode(values).rows.to_pylist() == 2 * [{"m": {"i": {"x": 5}}, "at": None}]


def test_what_is_registered_may_be_no_protobuf(known: TestRegistry) -> None:
    """B12: also nothing that any registry should hold."""
    numbers = [
        known.register("a", SCHEMA),
        known.register("j", "{}", kind="JSON"),
        known.register("p", "AAAA", kind="PROTOBUF"),
        known.register("r", serialized(file(dependency=["x.proto"])), kind="PROTOBUF"),
    ]
    values = [framed(number, b"\x08\1", FIRST) for number in numbers]
    rejected = of_protobuf(known, a="int").decode(values).rejected
    assert [one.reason for one in rejected] == [Reason.OTHER_SCHEMA] * 4


def test_a_registry_that_gives_no_descriptors_is_no_answer_about_the_record(
    known: TestRegistry,
) -> None:
    """B12: some know schemas as text alone."""
    schema = file(message("M", field("a", "int32")))
    value = framed(known.register("t", serialized(schema), kind="PROTOBUF"), b"\x08\1", FIRST)
    made = of_protobuf(known, a="int")
    text = b'{"schemaType": "PROTOBUF", "schema": "syntax = \\"proto3\\";"}'
    for answer in [(200, text), (200, b"{}"), (500, b"{}"), (404, b"<html>"), (501, b"{}")]:
        known.answers_instead = answer
        with pytest.raises(Unreachable) as met:
            made.decode([value])
        assert isinstance(met.value, RegistryFailed | RegistrySilent | RegistryGaveNoSchema)
        assert met.value.url == known.url
    known.answers_instead = None
    assert made.decode([value]).rows.to_pylist() == [{"a": 1}]


def test_what_the_clients_serializer_writes_is_read(known: TestRegistry) -> None:
    """B12: with a nested message, so that its place stands behind the id."""
    kind = descriptor_pb2.DescriptorProto.ExtensionRange
    write = ProtobufSerializer(kind, known.client())
    value = write(kind(start=5, end=7), SerializationContext("t", MessageField.VALUE))
    decoded = of_protobuf(known, start="int", end="int").decode([value])
    assert decoded.rows.to_pylist() == [{"start": 5, "end": 7}]


def test_what_the_clients_serializers_write_with_ids_in_headers_is_read(
    known: TestRegistry,
) -> None:
    """B12: the value is bare, and a GUID stands in a header; Protobuf's place stands behind it."""
    by_header = {"schema.id.serializer": header_schema_id_serializer}
    kind = descriptor_pb2.DescriptorProto.ExtensionRange
    avro = AvroSerializer(known.client(), json.dumps(SCHEMA), conf=by_header)
    protobuf = ProtobufSerializer(kind, known.client(), by_header)
    for write, datum, format, name in (
        (avro, {"a": 5}, "avro", "a"),
        (protobuf, kind(start=5), "protobuf", "start"),
    ):
        context = SerializationContext("t", MessageField.VALUE, [])
        value = write(datum, context)
        columns = arrow_schema({name: "int"})
        config = registry_config(known.connection(extra=QUICK))
        decoding = Decoding(format, columns, framing="headers", registry=config)
        record = Message(value=value, headers=context.headers)
        decoded = RecordDecoder(decoding).decode([record], headers_of)
        assert decoded.rows.to_pylist() == [{name: 5}], decoded.rejected


def test_what_it_answers_to_all_is_no_answer_about_the_record(known: TestRegistry) -> None:
    """B12: no dead letter, and it is asked again."""
    number = known.register("t-value", SCHEMA)
    made = AvroDecoder(arrow_schema({"a": "int"}), opened(known))
    value = framed(number, written(SCHEMA, {"a": 5}))
    for answer in [
        (500, b'{"error_code": 50001, "message": "backend"}'),
        (503, b"<html>"),
        (401, b'{"error_code": 401, "message": "no"}'),
        (403, b'{"error_code": 40301, "message": "no"}'),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (404, b"<html>no such page</html>"),
        (404, b"[]"),
        (422, b'{"error_code": 42201, "message": "odd"}'),
        (302, b""),
        (204, b""),
        (200, b"<html>log in</html>"),
        (200, b"{}"),
        (200, b"[1]"),
        (200, b'{"schema": 5}'),
    ]:
        known.answers_instead = answer
        with pytest.raises(Unreachable) as met:
            made.decode([value])
        assert isinstance(met.value, RegistryFailed | RegistrySilent | RegistryGaveNoSchema)
        assert met.value.url == known.url
    known.answers_instead = (404, b'{"error_code": 40403, "message": "Schema 1 not found"}')
    assert [one.reason for one in made.decode([value]).rejected] == [Reason.UNKNOWN_SCHEMA]
    known.answers_instead = None
    assert made.decode([value]).rows.to_pylist() == [{"a": 5}]


ODD = [
    (400, b'{"error_code": 400, "message": "odd"}'),
    (404, b"<html>no such page</html>"),
    (404, b'{"error_code": 40401, "message": "Subject not found"}'),
    (405, b""),
    (422, b'{"error_code": 42201, "message": "odd"}'),
    (500, b'{"error_code": 50001, "message": "of this one"}'),
    (501, b"{}"),
    (302, b""),
    (204, b""),
    (200, b""),
    (200, b"<html>a page</html>"),
    (200, b"{}"),
    (200, b"[1]"),
    (200, b"null"),
    (200, b'{"schema": 5}'),
    (200, b'{"schema": "\\"int\\"", "references": [{"version": "x"}]}'),
    (200, b'{"schema": "\\"int\\"", "references": 7}'),
    (200, b'{"schema": "\\"int\\"", "schemaType": "THRIFT"}'),
    (200, b'{"schema": "\\"int\\"", "schemaType": 5}'),
]
"""What a registry may answer about one schema; or junk before it, that looks like its id."""


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_whatever_it_answers_about_one_id_stops_no_other_record(
    known: TestRegistry, odd: tuple[int, bytes]
) -> None:
    """B12, G172: by number or GUID, in Avro and in Protobuf."""
    good = known.register("t-value", SCHEMA)
    message_id = known.register(
        "p", serialized(file(message("M", field("a", "int32")))), kind="PROTOBUF"
    )
    known.answers_of = {"/schemas/ids/77": odd, "/schemas/guids/": odd}
    junk = [framed(77, b"\2", FIRST), b"\1junk of any othe" + FIRST]
    avro = AvroDecoder(arrow_schema({"a": "int"}), opened(known))
    for made, value in (
        (avro, framed(good, written(SCHEMA, {"a": 5}))),
        (of_protobuf(known, a="int"), framed(message_id, b"\x08\5", FIRST)),
    ):
        decoded = made.decode([junk[0], value, junk[1]])
        assert decoded.rows.to_pylist() == [{"a": 5}]
        assert [one.index for one in decoded.rejected] == [0, 2]
        reasons = {one.reason for one in decoded.rejected}
        assert reasons <= {Reason.UNKNOWN_SCHEMA, Reason.OTHER_SCHEMA}


@pytest.mark.parametrize("status", [401, 403, 407, 429])
def test_a_login_that_is_refused_for_one_id_makes_no_dead_letter(
    known: TestRegistry, status: int
) -> None:
    """B12, G172: its schema is there, and a person may grant it."""
    number = known.register("t-value", SCHEMA)
    known.answers_of = {f"/schemas/ids/{number}": (status, b"{}")}
    with pytest.raises(RegistryFailed) as met:
        opened(known).schema(number)
    assert met.value.status == status


def test_a_registry_that_fails_for_a_moment_makes_no_dead_letter(known: TestRegistry) -> None:
    """B12, G172: it is asked once more, after it answered well about another id."""
    good, number = known.register("t-value", SCHEMA), known.register("n", "{}", kind="JSON")

    class Back(Registry):
        def _answers_others(self, page: Page, status: int) -> bool:
            known.answers_of = {}
            return super()._answers_others(page, status)

    made = Back(registry_config(known.connection(extra=QUICK)))
    made.schema(good)
    known.answers_of = {f"/schemas/ids/{number}": (500, b"{}")}
    assert made.schema(number).kind == "JSON"


@pytest.mark.parametrize("answer", [(500, b"{}"), (302, b""), (200, b"<html>"), (200, b"{}")])
def test_a_registry_whose_storage_is_partly_broken_makes_no_dead_letter(
    known: TestRegistry, answer: tuple[int, bytes]
) -> None:
    """B12, G172: that it knows no other id proves nothing. What it gave before, of the same page
    and in the same form, it has to give anew.
    """
    read = known.register("read", SCHEMA)
    known.register("inner", record(("x", "int"), name="Inner"))
    lost = known.register("lost", record(("i", "Inner")), SchemaReference("Inner", "inner", 1))
    message_id = known.register("p", serialized(file(message("M"))), kind="PROTOBUF")
    for broken, was_read, ask, schema_id in (
        ([f"/schemas/ids/{lost}"], False, Registry.schema, lost),
        ([f"/schemas/ids/{lost}", f"/schemas/ids/{read}"], True, Registry.schema, lost),
        (["/subjects/inner/versions/1"], True, Registry.schema, lost),
        ([f"/schemas/ids/{message_id}?format="], True, Registry.serialized, message_id),
    ):
        made = opened(known)
        known.answers_of = {}
        if was_read:
            made.schema(read)
        known.answers_of = dict.fromkeys(broken, answer)
        with pytest.raises(Unreachable) as met:
            ask(made, schema_id)
        assert isinstance(met.value, RegistryFailed | RegistryGaveNoSchema)


def test_a_registry_without_guids_answers_about_the_record(known: TestRegistry) -> None:
    """B12, G172: if it lives, though it does not tell its types; one that answers nothing else
    either is none.
    """
    known.has_guids = False
    known.answers_of = {"/schemas/types": (404, b"{}")}
    assert opened(known).ping() == known.url
    made = AvroDecoder(arrow_schema({"a": "int"}), opened(known))
    junk = b"\1junk of any other kind"
    assert [one.reason for one in made.decode([junk]).rejected] == [Reason.UNKNOWN_SCHEMA]
    for answer in [(404, b"<html>no such page</html>"), (500, b""), (401, b"{}")]:
        known.answers_instead = answer
        with pytest.raises(Unreachable):
            made.decode([junk])


def test_what_is_registered_may_be_no_avro(known: TestRegistry) -> None:
    """B12"""
    numbers = [
        known.register("p", 'syntax = "proto3";', kind="PROTOBUF"),
        known.register("n", "no json"),
        known.register("o", '{"type": "record"}'),
        known.register("j", SCHEMA, kind="JSON"),
    ]
    made = AvroDecoder(arrow_schema({"a": "int"}), opened(known))
    rejected = made.decode([framed(number, b"\2") for number in numbers]).rejected
    assert [one.reason for one in rejected] == [Reason.OTHER_SCHEMA] * 4


def test_a_registry_that_is_away_is_unreachable() -> None:
    """B12"""
    with registry() as gone:
        away = opened(gone)
    with pytest.raises(RegistrySilent) as silent:
        away.schema(1)
    assert silent.value.url == gone.url


def test_logins_and_tokens(known: TestRegistry) -> None:
    """B12: of the connection's fields; neither is shown."""
    known.authorization = basic("ada", "se:cret")
    assert opened(known, login="ada", password="se:cret").ping() == known.url
    with pytest.raises(RegistryFailed) as wrong:
        opened(known, login="ada", password="wr0ng").ping()
    assert "wr0ng" not in str(wrong.value)
    known.authorization = "Bearer t0ken"
    assert opened(known, extra={"bearer.auth.token": "t0ken"}).ping() == known.url
    with pytest.raises(RegistryFailed):
        opened(known).ping()


def test_tls_with_a_certificate_on_both_sides(tmp_path: Path) -> None:
    """B12"""
    files = {name: str(tmp_path / name) for name in ("key", "cert")}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files["key"],
         "-out", files["cert"]],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files["cert"])
    server.load_cert_chain(files["cert"], files["key"])
    server.verify_mode = ssl.CERT_REQUIRED
    trust = {"ssl.ca.location": files["cert"]}
    own = {"ssl.certificate.location": files["cert"], "ssl.key.location": files["key"]}
    with registry(server) as known:
        assert opened(known, extra=trust | own).ping() == known.url
        for extra in (trust, own):
            with pytest.raises(Unreachable):
                opened(known, extra=extra).ping()
        with pytest.raises(RegistryClientRefused):
            opened(known, extra={"ssl.ca.location": "/nowhere"}).ping()


@pytest.mark.parametrize(
    ("changes", "case"),
    [
        ({"host": None}, ConnectionIncomplete),
        ({"host": "ftp://r"}, ConnectionIncomplete),
        ({"host": "http://u:p@r"}, RegistryLoginInHost),
        ({"extra": {"colour": 1}}, ConnectionKeysRefused),
        ({"extra": {"timeout": {}}}, RegistryExtraNested),
        ({"extra": {"ssl.ca.location": False}}, RegistryExtraNested),
    ],
)
def test_a_connection_that_cannot_be_used(
    changes: dict[str, Any], case: type[InvalidSettings]
) -> None:
    """B12"""
    with pytest.raises(case):
        registry_config(Connection("r", "http", **{"host": "r", **changes}))


def test_addresses_as_airflow_has_them() -> None:
    """B12"""
    config = registry_config(Connection("r", "http", "r.example", 8081, schema="https"))
    assert config["url"] == "https://r.example:8081"
    assert registry_config(Connection("r", "http", "https://r/x/"))["url"] == "https://r/x"


def test_a_schema_without_what_it_refers_to_is_unknown(known: TestRegistry) -> None:
    """B12, G172: missing, or in a circle; its records are dead letters, and no others."""
    lost = known.register("t", SCHEMA, SchemaReference("x.Y", "nowhere", 7))
    known.register("round", '"int"', SchemaReference("x.Y", "back", 1))
    known.register("back", '"long"', SchemaReference("x.Z", "round", 1))
    around = known.register("round", '"int"', SchemaReference("x.Y", "back", 1))
    found = []
    for number in (lost, around):
        with pytest.raises(Refusal) as refused:
            opened(known).schema(number)
        found.append(refused.value.reason)
    assert found == [Reason.UNKNOWN_SCHEMA, Reason.OTHER_SCHEMA]


def test_no_such_schema_is_a_refusal(known: TestRegistry) -> None:
    """B12"""
    with pytest.raises(Refusal) as refused:
        opened(known).schema(77)
    assert refused.value.reason is Reason.UNKNOWN_SCHEMA
