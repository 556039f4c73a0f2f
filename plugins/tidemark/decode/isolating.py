"""IsolatingDecoder: what a decoder raises over is one value's fault, and costs that value alone."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tidemark.decode.outcome import Decoded, Reason, Refusal
from tidemark.decode.port import Decoder
from tidemark.errors import TidemarkError

_NO_VERDICT = (TidemarkError, MemoryError, OSError, ImportError)
"""They tell of the process and what it needs, not of a value."""


class IsolatingDecoder:
    """Halves the values that another decoder raises over, until those at fault stand alone."""

    def __init__(self, inner: Decoder) -> None:
        self.schema = inner.schema
        self._inner = inner

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """What the other makes of the values; one that it raises over by itself is UNREADABLE."""
        try:
            return self._inner.decode(values)
        except _NO_VERDICT:
            raise
        except Exception as error:
            if len(values) > 1:
                half = len(values) // 2
                return _joined(self.decode(values[:half]), self.decode(values[half:]), half)
            return self._unreadable(error)

    def _unreadable(self, error: Exception) -> Decoded:
        refusal = Refusal(Reason.UNREADABLE, f"the decoder failed: {type(error).__name__}: {error}")
        rows = pa.RecordBatch.from_pylist([], self.schema)
        return Decoded(rows, pa.array([], pa.int64()), [refusal.of(0)])


def _joined(first: Decoded, second: Decoded, begin: int) -> Decoded:
    """Both as one, where the values of the second began at this index."""
    rows = pa.concat_batches([first.rows, second.rows])
    kept = [*first.kept.to_pylist(), *(index + begin for index in second.kept.to_pylist())]
    rejected = [
        *first.rejected,
        *(replace(one, index=one.index + begin) for one in second.rejected),
    ]
    return Decoded(rows, pa.array(kept, pa.int64()), rejected)
