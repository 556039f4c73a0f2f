"""FramedDecoder: values with the id of a schema in front, for a decoder that needs no schema."""

from collections.abc import Sequence

from tidemark.decode.framing import unframed
from tidemark.decode.outcome import Decoded, Refusal
from tidemark.decode.port import Decoder
from tidemark.decode.subset import decoded


class FramedDecoder:
    """Takes the id off and gives the rest to another decoder; the registry is not asked."""

    def __init__(self, inner: Decoder) -> None:
        self.schema = inner.schema
        self._inner = inner

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the other makes of the values; those without an id are NOT_FRAMED."""
        return decoded(self._inner, list(map(_body, values)))


def _body(value: bytes | None) -> bytes | Refusal | None:
    try:
        return value and value[unframed(value)[1] :]
    except Refusal as refusal:
        return refusal
