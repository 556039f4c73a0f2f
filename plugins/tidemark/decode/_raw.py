"""RawDecoder: values as they are, for a transform that reads them itself."""

from collections.abc import Sequence

import pyarrow as pa

from tidemark.decode.port import MAX_VALUE_BYTES, Decoded, Reason, Rejected


class RawDecoder:
    """Gives one nullable column `value`; a tombstone is a row whose value is null."""

    schema = pa.schema([pa.field("value", pa.binary())])

    def __init__(self, *, max_bytes: int = MAX_VALUE_BYTES) -> None:
        self._max_bytes = max_bytes

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """A row for every value of at most `max_bytes`; the others are TOO_LARGE."""
        rejected = [
            Rejected(index, Reason.TOO_LARGE, f"{len(value)} bytes, limit {self._max_bytes}")
            for index, value in enumerate(values)
            if value is not None and len(value) > self._max_bytes
        ]
        large = {one.index for one in rejected}
        kept = [index for index in range(len(values)) if index not in large]
        column = pa.array([values[index] for index in kept], pa.binary())
        rows = pa.RecordBatch.from_arrays([column], schema=self.schema)
        return Decoded(rows, pa.array(kept, pa.int64()), rejected)
