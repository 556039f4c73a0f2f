"""Framing: the id of the writer's schema in front of a value, as registry clients write it."""

from uuid import UUID

from tidemark.decode.outcome import Reason, Refusal

SchemaId = int | str
"""A number, or a GUID as text."""

_NUMBER, _GUID = 0, 1
_SIZES = {_NUMBER: 5, _GUID: 17}


def unframed(value: bytes) -> tuple[SchemaId, int]:
    """The id of a value's schema, and where its data begin.

    Raises:
        Refusal: no id stands in front of the value.
    """
    size = _SIZES.get(value[0]) if value else None
    if size is None or len(value) < size:
        raise Refusal(
            Reason.NOT_FRAMED,
            "no schema id stands in front of the value (a zero byte and four bytes more, or a one"
            " and sixteen); ids in headers are not read",
        )
    if value[0] == _NUMBER:
        return int.from_bytes(value[1:size]), size
    return str(UUID(bytes=value[1:size])), size
