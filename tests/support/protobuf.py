"""Descriptors of Protobuf, written as short as a test needs them."""

from base64 import b64encode
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from tidemark.decode._protobuf_schema import message_of_set

Field = FieldDescriptorProto
FIRST = b"\0"
"""The place of a schema's first message."""


def field(
    name: str, kind: str, *, many: bool = False, optional: bool = False, **more: Any
) -> FieldDescriptorProto:
    """A field by Protobuf's name of its type; that of a message or an enum begins with a dot."""
    label = Field.LABEL_REPEATED if many else Field.LABEL_OPTIONAL
    made = Field(name=name, label=label, **more)
    if kind.startswith("enum "):
        made.type, made.type_name = Field.TYPE_ENUM, kind.removeprefix("enum ")
    elif kind.startswith("."):
        made.type, made.type_name = Field.TYPE_MESSAGE, kind
    else:
        made.type = Field.Type.Value(f"TYPE_{kind.upper()}")
    made.proto3_optional = optional
    return made


def message(
    name: str, *fields: FieldDescriptorProto, nested: tuple[DescriptorProto, ...] = ()
) -> DescriptorProto:
    """Fields are numbered from 1; each optional one has the oneof that stands for it."""
    made = DescriptorProto(name=name, nested_type=nested)
    for number, one in enumerate(fields, 1):
        added = made.field.add()
        added.CopyFrom(one)
        added.number = one.number or number
        if one.proto3_optional:
            added.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{one.name}")
    return made


def entry(name: str, key: str, value: str) -> DescriptorProto:
    """What a map's field is made of."""
    made = message(name, field("key", key), field("value", value))
    made.options.map_entry = True
    return made


def enum(name: str, *names: str) -> EnumDescriptorProto:
    """Numbered from 0."""
    made = EnumDescriptorProto(name=name)
    for number, one in enumerate(names):
        made.value.add(name=one, number=number)
    return made


def file(*messages: DescriptorProto, syntax: str = "proto3", **more: Any) -> FileDescriptorProto:
    """A file of the package t."""
    more = {"name": "t.proto", "package": "t"} | more
    return FileDescriptorProto(syntax=syntax, message_type=messages, **more)


def serialized(of: FileDescriptorProto) -> str:
    """As clients register it, and get it."""
    return b64encode(of.SerializeToString()).decode()


def as_set(*files: FileDescriptorProto) -> bytes:
    """As protoc writes them; what others import stands first."""
    text: bytes = FileDescriptorSet(file=files).SerializeToString()
    return text


def made(*files: FileDescriptorProto, name: str = "t.M") -> Any:
    """The class of a message, for a writer."""
    return message_of_set(as_set(*files), name)
