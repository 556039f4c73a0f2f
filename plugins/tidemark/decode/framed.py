"""FramedDecoder: values with the id of a schema in front, for a decoder that needs no schema."""

from collections.abc import Sequence

import pyarrow as pa

from tidemark.decode.framing import unframed
from tidemark.decode.outcome import Decoded, Refusal, Rejected
from tidemark.decode.port import Decoder


class FramedDecoder:
    """Takes the id off and gives the rest to another decoder; the registry is not asked."""

    def __init__(self, inner: Decoder) -> None:
        self.schema = inner.schema
        self._inner = inner

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the other makes of the values; those without an id are NOT_FRAMED."""
        rejected: list[Rejected] = []
        given: list[int] = []
        bodies: list[bytes | None] = []
        for index, value in enumerate(values):
            try:
                bodies.append(value and value[unframed(value)[1] :])
                given.append(index)
            except Refusal as refusal:
                rejected.append(refusal.of(index))
        found = self._inner.decode(bodies)
        kept = pa.array(given, pa.int64()).take(found.kept)
        rejected += [Rejected(given[one.index], one.reason, one.detail) for one in found.rejected]
        rejected.sort(key=lambda one: one.index)
        return Decoded(found.rows, kept, rejected)
