"""Schemas of Protobuf: from descriptors to the class of a message, as its own library makes it.

Google's own files, and those that Confluent's serializers add, are never taken from elsewhere.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemark.decode.port import Reason, Refusal
from tidemark.errors import packages_of

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

    from tidemark.decode.registry import Written


MOST_TOLD = 10
"""Messages that a refusal names."""


def parts(message: "Descriptor") -> "Iterator[Descriptor]":
    """The message and those that its fields have within, at any depth; each once."""
    seen, todo = {message.full_name}, [message]
    while todo:
        found = todo.pop()
        yield found
        for field in found.fields:
            if field.message_type and field.message_type.full_name not in seen:
                seen.add(field.message_type.full_name)
                todo.append(field.message_type)


def chosen(messages: "Sequence[Descriptor]", name: str | None) -> str:
    """The full name of one of a file's messages, or of one nested in them: this one.

    Without a name it is the first, as writers take it, if the others are parts of it.

    Raises:
        Refusal: there is none of this name; or without one it might be another.
    """
    if name is None:
        return _first(messages)
    if name not in {one.full_name for one in _with_nested(messages)}:
        raise Refusal(
            Reason.OTHER_SCHEMA,
            f"it has no message {name}: name another one of it by message: {_names(messages)}",
        )
    return name


def _first(messages: "Sequence[Descriptor]") -> str:
    """The full name of the first, of which all others are parts."""
    if not messages:
        raise Refusal(Reason.OTHER_SCHEMA, "it has no message")
    within = {one.full_name for one in parts(messages[0])}
    if not within.issuperset(one.full_name for one in messages):
        raise Refusal(
            Reason.OTHER_SCHEMA,
            "it has several messages, and the first does not have all others within: name that of"
            f" the records by message: {_names(messages)}",
        )
    return str(messages[0].full_name)


def _with_nested(messages: "Iterable[Descriptor]") -> "Iterator[Descriptor]":
    for one in messages:
        yield one
        yield from _with_nested(one.nested_types)


def _names(messages: "Sequence[Descriptor]") -> str:
    names = [one.full_name for one in messages[:MOST_TOLD]]
    return ", ".join(names + ["…"] * (len(messages) > MOST_TOLD))


_BUILTIN = re.compile(r"(google/(?:protobuf|type)|confluent(?:/types?)?)/(\w+)\.proto")
WRAPPERS = "google/protobuf/wrappers.proto"
_ROOT = "the writer's schema"
"""A name that no import has."""
_CONFLUENT = "confluent_kafka.schema_registry."


class MessageSchema:
    """A writer's schema with all that it imports, parsed once for all of its messages."""

    def __init__(self, written: "Sequence[Written]") -> None:
        """What comes last is the schema itself.

        Raises:
            Refusal: these are no schemas of Protobuf.
            MissingExtra: the library is not installed.
        """
        descriptors = _library()
        files = []
        for one in written:
            file = _parsed(descriptors.FileDescriptorProto, one.text, b64decode)
            file.name = one.name or _ROOT
            files.append(file)
        self._file: FileDescriptorProto = files[-1]
        self._pool = _pool_of(files)

    def message(self, path: Sequence[int]) -> "type[Message]":
        """The class of a message by its place: of the file's messages, then within.

        Raises:
            Refusal: there is no such message.
        """
        return _named(self._pool, _name(self._file, path))

    def named(self, name: str | None) -> "type[Message]":
        """The class of one of the file's own messages, by its full name.

        Raises:
            Refusal: see `chosen`.
        """
        with _refusing():
            file = self._pool.FindFileByName(self._file.name)
        return _named(self._pool, chosen([*file.message_types_by_name.values()], name))


def message_of_set(descriptors: bytes, name: str) -> "type[Message]":
    """The class of a message by its full name, of a serialized FileDescriptorSet."""
    found = _parsed(_library().FileDescriptorSet, descriptors, bytes)
    return _named(_pool_of(found.file), name)


def _library() -> Any:
    with packages_of("registry", "format protobuf"):
        return import_module("google.protobuf.descriptor_pb2")


def _parsed(kind: Any, data: Any, decoded: Callable[[Any], bytes]) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(decoded(data))
    except (ValueError, DecodeError) as error:
        raise Refusal(Reason.OTHER_SCHEMA, f"no descriptor of Protobuf: {error}") from error


def _pool_of(files: "Iterable[FileDescriptorProto]") -> "DescriptorPool":
    """All of their messages; what a file imports stands before it."""
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    with _refusing():
        for file in files:
            if not _BUILTIN.fullmatch(file.name):
                _add_builtin(pool, file.dependency)
                pool.Add(file)
    return pool


def _named(pool: "DescriptorPool", name: str) -> "type[Message]":
    """The class of a message by its full name."""
    from google.protobuf.message_factory import GetMessageClass

    with _refusing():
        found = pool.FindMessageTypeByName(name)
        if found.GetOptions().map_entry:
            raise Refusal(Reason.OTHER_SCHEMA, f"{name} is the entry of a map, no message")
        made: type[Message] = GetMessageClass(found)
    return made


@contextmanager
def _refusing() -> Iterator[None]:
    """What the library makes of a schema that is none, is a refusal."""
    try:
        yield
    except (TypeError, KeyError, RecursionError) as error:
        raise Refusal(Reason.OTHER_SCHEMA, f"no schema of Protobuf: {error.args[0]}") from error


def path_of(message: "Descriptor") -> tuple[int, ...]:
    """The place of a message among its file's, and within others."""
    outer = message.containing_type
    if outer is None:
        return (list(message.file.message_types_by_name).index(message.name),)
    return *path_of(outer), [one.name for one in outer.nested_types].index(message.name)


def is_builtin(message: "Descriptor", name: str) -> bool:
    """Whether a message is the one of this name that everyone knows."""
    return message.full_name == name and _BUILTIN.fullmatch(message.file.name) is not None


def _name(file: "FileDescriptorProto", path: Sequence[int]) -> str:
    """The full name of the message at this place."""
    messages: Sequence[DescriptorProto] = file.message_type
    names = [file.package] if file.package else []
    for index in path:
        if not 0 <= index < len(messages):
            raise Refusal(
                Reason.OTHER_SCHEMA, f"it has no message {index} of {len(messages)} at this place"
            )
        names.append(messages[index].name)
        messages = messages[index].nested_type
    try:
        return ".".join(names)
    except TypeError as error:  # bytes that are no UTF-8
        raise Refusal(Reason.OTHER_SCHEMA, "a name in it is no text") from error


def _add_builtin(pool: "DescriptorPool", imports: Iterable[str]) -> None:
    """What Google's library and Confluent's client bring along; the pool knows each once."""
    for path in imports:
        if not (found := _BUILTIN.fullmatch(path)):
            continue
        package = found[1].replace("/", ".")
        module = f"{_CONFLUENT if package.startswith('confluent') else ''}{package}.{found[2]}_pb2"
        try:
            file = import_module(module).DESCRIPTOR
        except ImportError:
            continue  # the pool tells what is missing
        _add_builtin(pool, [one.name for one in file.dependencies])
        pool.AddSerializedFile(file.serialized_pb)
