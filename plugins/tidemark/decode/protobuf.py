"""ProtobufDecoder: messages of Protobuf into the declared columns.

Which message a value is stands in front of it: the id of its writer's schema, and a place in that.
Or every value is the one message that a file of descriptors names.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemark.decode.outcome import (
    MAX_VALUE_BYTES,
    Decoded,
    Refusal,
    Rejected,
    in_order,
    within,
)
from tidemark.decode.protobuf_kinds import Kinds
from tidemark.decode.protobuf_messages import Messages

if TYPE_CHECKING:
    from google.protobuf.message import Message


PIECE_BYTES = 256 << 10
"""About so many bytes of values are messages at a time: that takes a hundred times more."""


class ProtobufDecoder:
    """Reads messages into the columns of `schema`.

    A field that the writer does not have is null, one that is not declared is passed over.
    """

    def __init__(
        self,
        schema: pa.Schema,
        kinds: Kinds,
        *,
        max_bytes: int = MAX_VALUE_BYTES,
        takes_null: bool = False,
    ) -> None:
        self.schema = schema
        self._kinds = kinds
        self._max_bytes = max_bytes
        self._takes_null = takes_null

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The rows of the good values, in order, and the others with their reasons.

        Raises:
            Unreachable: the registry does not answer.
        """
        self._kinds.look_for(values)
        found: dict[Messages, dict[int, Message]] = {}
        empty: list[int] = []
        rejected: list[Rejected] = []
        batches: list[pa.RecordBatch] = []
        kept: list[int] = []
        size = 0
        for index, value in enumerate(values):
            size += len(value or b"")
            if size > PIECE_BYTES:
                self._read(found, batches, kept, rejected)
                found, size = {}, 0
            if value is None and self._takes_null:
                empty.append(index)
                continue
            try:
                kind, message = self._message(value)
            except Refusal as refusal:
                rejected.append(refusal.of(index))
            else:
                found.setdefault(kind, {})[index] = message
        self._kinds.forget_unknown()  # asked once a block
        self._read(found, batches, kept, rejected)
        nulls = [pa.nulls(len(empty), one.type) for one in self.schema]
        batches.append(pa.RecordBatch.from_arrays(nulls, schema=self.schema))
        kept += empty
        rejected.sort(key=lambda one: one.index)
        return Decoded(in_order(batches, kept), pa.array(sorted(kept), pa.int64()), rejected)

    def _message(self, value: bytes | None) -> "tuple[Messages, Message]":
        value = within(value, self._max_bytes, may_be_empty=self._kinds.may_be_empty)
        kind, at = self._kinds.of(value)
        return kind, kind.parsed(value[at:])

    def _read(
        self,
        found: "dict[Messages, dict[int, Message]]",
        batches: list[pa.RecordBatch],
        kept: list[int],
        rejected: list[Rejected],
    ) -> None:
        """Rows of these messages, and their indices; or why they are none."""
        for kind, messages in found.items():
            indices = list(messages)
            batch, refused = kind.rows(list(messages.values()))
            batches.append(batch)
            kept += [index for at, index in enumerate(indices) if at not in refused]
            rejected += [refusal.of(indices[at]) for at, refusal in refused.items()]
