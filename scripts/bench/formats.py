"""The flights in Avro and in Protobuf, as registry clients write them, with their decoders."""

import json
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import pyarrow as pa
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from tidemark.decode import Decoder
from tidemark.decode._avro import AvroDecoder
from tidemark.decode._protobuf import DescribedMessage, Messages, ProtobufDecoder
from tidemark.decode._protobuf_schema import message_of_set
from tidemark.decode.registry import Written

AVRO = {pa.int32(): "int", pa.string(): "string"}
PROTOBUF = {
    pa.int32(): FieldDescriptorProto.TYPE_INT32,
    pa.string(): FieldDescriptorProto.TYPE_STRING,
}


def avro_flights(flights: Iterable[bytes], schema: pa.Schema) -> tuple[str, list[bytes]]:
    """The schema, and each flight as a datum of it."""
    time = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [
        {"name": one.name, "type": ["null", AVRO.get(one.type, time)], "default": None}
        for one in schema
    ]
    written = {"type": "record", "name": "Flight", "fields": fields}
    parsed = fastavro.parse_schema(written)
    values = []
    for flight in flights:
        fastavro.schemaless_writer(out := BytesIO(), parsed, _read(flight))
        values.append(out.getvalue())
    return json.dumps(written), values


def in_avro(flights: Iterable[bytes], schema: pa.Schema) -> tuple[Decoder, list[bytes | None]]:
    """The decoder, with a registry that knows one schema, and the values."""
    text, data = avro_flights(flights, schema)
    registry = SimpleNamespace(schema=lambda _: Written("AVRO", text))
    return AvroDecoder(schema, cast(Any, registry)), [b"\0\0\0\0\1" + one for one in data]


def in_protobuf(flights: Iterable[bytes], schema: pa.Schema) -> tuple[Decoder, list[bytes | None]]:
    """The decoder and the values."""
    message = DescriptorProto(name="Flight")
    for number, one in enumerate(schema, 1):
        field = message.field.add(name=one.name, number=number, label=1)
        if one.type in PROTOBUF:
            field.type, field.proto3_optional = PROTOBUF[one.type], True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{one.name}")
        else:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = ".google.protobuf.Timestamp"
    file = FileDescriptorProto(name="flight.proto", syntax="proto3", message_type=[message])
    file.dependency.append("google/protobuf/timestamp.proto")
    descriptors = FileDescriptorSet(file=[file]).SerializeToString()
    kind: Any = message_of_set(descriptors, "Flight")
    described = DescribedMessage(descriptors, "Flight", partial(Messages, schema=schema))
    values: list[bytes | None] = [kind(**_read(one)).SerializeToString() for one in flights]
    return ProtobufDecoder(schema, described), values


def _read(flight: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(flight)
    time = found["time_hour"]
    return found | {"time_hour": time and datetime.fromisoformat(time)}
