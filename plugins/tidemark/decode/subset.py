"""Some of the values for a decoder: those that were refused before keep their places."""

from collections.abc import Sequence

import pyarrow as pa

from tidemark.decode.outcome import Decoded, Refusal, Rejected
from tidemark.decode.port import Decoder


def decoded(decoder: Decoder, values: Sequence[bytes | Refusal | None]) -> Decoded:
    """What the decoder makes of the values that are none yet refused, and the refusals."""
    rejected = [one.of(index) for index, one in enumerate(values) if isinstance(one, Refusal)]
    if not rejected:
        return decoder.decode(values)  # type: ignore[arg-type]
    given = [index for index, one in enumerate(values) if not isinstance(one, Refusal)]
    found = decoder.decode([values[index] for index in given])  # type: ignore[misc]
    kept = pa.array(given, pa.int64()).take(found.kept)
    rejected += [Rejected(given[one.index], one.reason, one.detail) for one in found.rejected]
    rejected.sort(key=lambda one: one.index)
    return Decoded(found.rows, kept, rejected)
