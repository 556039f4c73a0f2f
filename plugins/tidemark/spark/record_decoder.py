"""RecordDecoder: records into rows, by their values, and by their keys where asked."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from tidemark.decode.framing import KEY, VALUE, HeaderIds, decoded
from tidemark.decode.port import MAX_DETAIL, Decoded, Decoding, Reason, Refusal, Rejected
from tidemark.kafka.headers import HeadersOf
from tidemark.settings.decode import KEY_PREFIX
from tidemark.settings.fields import check_names
from tidemark.settings.format import Format, Framing
from tidemark.spark.decoders import decoder_of


class RecordDecoder:
    """The decoder of a pipeline; the columns of its keys stand behind those of its values."""

    def __init__(self, decoding: Decoding) -> None:
        """Make it without the network.

        Raises:
            InvalidSettings: it can't be made, or a column of keys has the name of another.
        """
        self._values = _Part(decoding, Message.value, VALUE)
        self._keys = _Part(decoding.key, Message.key, KEY) if decoding.key else None
        of_keys = list(self._keys.schema) if self._keys else []
        named = [field.with_name(f"{KEY_PREFIX}{field.name}") for field in of_keys]
        self.schema = pa.schema([*self._values.schema, *named])
        check_names(self.schema.names)

    def decode(self, records: list[Message], headers_of: HeadersOf) -> Decoded:
        """The rows of the good records, and the others with their reasons."""
        found = self._values.decode(records, headers_of)
        if self._keys is None:
            return found
        kept = found.kept.to_pylist()
        keys = self._keys.decode([records[index] for index in kept], headers_of)
        rows = found.rows.take(keys.kept)
        columns = [*rows.columns, *keys.rows.columns]
        rejected = [
            *found.rejected,
            *(
                Rejected(kept[one.index], one.reason, f"key: {one.detail}"[:MAX_DETAIL])
                for one in keys.rejected
            ),
        ]
        rejected.sort(key=lambda one: one.index)
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Decoded(batch, found.kept.take(keys.kept), rejected)


class _Part:
    """The decoder of values, or of keys."""

    def __init__(self, decoding: Decoding, part: Callable[[Message], Any], header: str) -> None:
        self._decoder = decoder_of(decoding)
        self._part = part
        self._ids: HeaderIds | None = None
        if decoding.framing == Framing.headers:
            self._ids = HeaderIds(header, has_path=decoding.format == Format.protobuf)
        self.schema = self._decoder.schema

    def decode(self, records: list[Message], headers_of: HeadersOf) -> Decoded:
        if self._ids is None:
            return self._decoder.decode(list(map(self._part, records)))
        return decoded(self._decoder, [self._framed(one, headers_of) for one in records])

    def _framed(self, record: Message, headers_of: HeadersOf) -> bytes | Refusal | None:
        headers = headers_of(record)
        if headers is None:
            return Refusal(Reason.NOT_FRAMED, "the Kafka client can't return the record's headers")
        part: bytes | None = self._part(record)
        return self._ids.framed(part, headers) if self._ids else part
