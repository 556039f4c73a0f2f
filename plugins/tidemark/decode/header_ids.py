"""Schema ids in headers, as newer serializers write them: put in front, values are as ever.

A record whose headers name two schemas is refused: clients differ in which of them they take.
"""

from collections.abc import Sequence

from tidemark.decode.framing import message_path, unframed
from tidemark.decode.outcome import Reason, Refusal

VALUE, KEY = "__value_schema_id", "__key_schema_id"


class HeaderIds:
    """The ids in one header."""

    def __init__(self, name: str, *, has_path: bool) -> None:
        """`has_path`: the place of a message follows the id, as Protobuf needs it."""
        self._name = name
        self._has_path = has_path

    def framed(
        self, value: bytes | None, headers: Sequence[tuple[str | bytes, bytes | None]]
    ) -> bytes | Refusal | None:
        """The value behind its id; as it is, if no header names one."""
        ids = {given for key, given in headers if key == self._name and given is not None}
        if not ids or value is None:
            return value
        if len(ids) > 1:
            return Refusal(Reason.NOT_FRAMED, f"headers {self._name} name several schemas")
        [found] = ids
        if not self._is_id(found):
            return Refusal(Reason.NOT_FRAMED, f"header {self._name} holds no schema id")
        return found + value

    def _is_id(self, found: bytes) -> bool:
        """Whether it is an id and nothing more: the rest would be taken for data."""
        try:
            _, end = unframed(found)
            if self._has_path:
                _, end = message_path(found, end)
        except Refusal:
            return False
        return end == len(found)
