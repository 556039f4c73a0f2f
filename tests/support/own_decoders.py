"""Decoders of a user's own: a sound one, and one for each way to answer wrongly."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidemark.decode import Decoded, Reason, Rejected


class Words:
    """Values like `left right`: two texts; the separator is an option."""

    def __init__(self, declared: pa.Schema, separator: str = " ") -> None:
        self.schema = pa.schema([("left", pa.string()), ("right", pa.string())])
        self._separator = separator

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        rows, kept, rejected = [], [], []
        for index, value in enumerate(values):
            words = (value or b"").decode("utf-8", "replace").split(self._separator)
            if len(words) == 2:
                rows.append({"left": words[0], "right": words[1]})
                kept.append(index)
            else:
                rejected.append(Rejected(index, Reason.WRONG_TYPE, f"{len(words)} words"))
        batch = pa.RecordBatch.from_pylist(rows, self.schema)
        return Decoded(batch, pa.array(kept, pa.int64()), rejected)


class Answers(Words):
    """Words, whose answer is then changed."""

    def __init__(self, declared: pa.Schema, **changed: Any) -> None:
        super().__init__(declared)
        self._changed = changed

    def decode(self, values: Sequence[bytes | None]) -> Any:
        return replace(super().decode(values), **self._changed)


class Raises(Words):
    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        raise KeyError("no such word")


class Silent(Words):
    def decode(self, values: Sequence[bytes | None]) -> Any:
        return None


class NeverNull(Words):
    def __init__(self, declared: pa.Schema) -> None:
        self.schema = pa.schema([pa.field("left", pa.string(), nullable=False)])


class Reserved(Words):
    def __init__(self, declared: pa.Schema) -> None:
        self.schema = pa.schema([("kafka_offset", pa.int64())])


class Columnless(Words):
    def __init__(self, declared: pa.Schema) -> None:
        pass
