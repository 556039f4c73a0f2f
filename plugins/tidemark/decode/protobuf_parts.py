"""Parts: the messages that a message of Protobuf has within, and which one a file is about."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidemark.decode.outcome import Reason, Refusal

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

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
            f"it has no message {name}: name another one of it by message: {_told(messages)}",
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
            f" the records by message: {_told(messages)}",
        )
    return str(messages[0].full_name)


def _with_nested(messages: "Iterable[Descriptor]") -> "Iterator[Descriptor]":
    for one in messages:
        yield one
        yield from _with_nested(one.nested_types)


def _told(messages: "Sequence[Descriptor]") -> str:
    names = [one.full_name for one in messages[:MOST_TOLD]]
    return ", ".join(names + ["…"] * (len(messages) > MOST_TOLD))
