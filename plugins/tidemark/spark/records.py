"""Records become rows: a block of messages is decoded into one Arrow batch and dead letters."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from tidemark.decode import Decoded, Rejected
from tidemark.model.batch import DeadLetter
from tidemark.model.offsets import TopicPartition

RECORDS_A_BLOCK = 10_000
BYTES_A_BLOCK = 16 << 20

_UTC = pa.timestamp("us", "UTC")
_COORDINATES = (
    pa.field("kafka_topic", pa.string()),
    pa.field("kafka_partition", pa.int32()),
    pa.field("kafka_offset", pa.int64()),
)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_METADATA = {
    "key": pa.field("kafka_key", pa.binary()),
    "timestamp": pa.field("kafka_timestamp", _UTC),
    "headers": pa.field("kafka_headers", _HEADERS),
}
_MAX_TIMESTAMP_MS = (2**63 - 1) // 1000


class Decoder(Protocol):
    """Values of records become rows; a record's fate does not depend on its neighbours."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode what can be decoded, name the rest."""


def row_schema(fields: pa.Schema, metadata: Collection[str]) -> pa.Schema:
    """The columns a transform is given: fields, coordinates, and the metadata asked for."""
    asked = [field for name, field in _METADATA.items() if name in metadata]
    return pa.schema([*fields, *_COORDINATES, *asked])


def blocks(lists: Iterable[list[Message]]) -> Iterator[list[Message]]:
    """The same records in lists of a size that suits decoding; large records make short ones."""
    block: list[Message] = []
    size = 0
    for records in lists:
        block += records
        size += sum(map(len, records))
        if len(block) >= RECORDS_A_BLOCK or size >= BYTES_A_BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def decode_block(
    decoder: Decoder, records: list[Message], schema: pa.Schema
) -> tuple[pa.RecordBatch, list[DeadLetter]]:
    """Rows of the good records in their order, dead letters of the others."""
    decoded = decoder.decode([record.value() for record in records])
    good = records if not decoded.rejected else [records[i] for i in decoded.kept.to_pylist()]
    columns = [
        *decoded.rows.columns,
        *(_column(field, good) for field in list(schema)[decoded.rows.num_columns :]),
    ]
    letters = [dead_letter(records[rejected.index], rejected) for rejected in decoded.rejected]
    return pa.RecordBatch.from_arrays(columns, schema=schema), letters


def dead_letter(record: Message, rejected: Rejected) -> DeadLetter:
    """The record as it came, with the reason why it is no row."""
    return DeadLetter(
        *TopicPartition(record.topic(), record.partition()),
        offset=record.offset(),
        timestamp_ms=_timestamp_ms(record),
        key=record.key(),
        value=record.value(),
        headers=tuple(record.headers() or ()),
        reason=rejected.reason,
        detail=rejected.detail,
    )


def _column(field: pa.Field, records: list[Message]) -> pa.Array:
    """One metadata column; the topic and the partition of a block are constants."""
    match field.name:
        case "kafka_topic" | "kafka_partition":
            return _constant(field, records)
        case "kafka_offset":
            return pa.array([record.offset() for record in records], pa.int64())
        case "kafka_key":
            return pa.array([record.key() for record in records], pa.binary())
        case "kafka_timestamp":
            return pa.array(map(_timestamp_us, records), pa.int64()).cast(_UTC)
        case _:
            return pa.array([_headers(record) for record in records], _HEADERS)


def _constant(field: pa.Field, records: list[Message]) -> pa.Array:
    if not records:
        return pa.array([], field.type)
    first = records[0]
    value = first.topic() if field.name == "kafka_topic" else first.partition()
    return pa.repeat(pa.scalar(value, field.type), len(records))


def _headers(record: Message) -> list[dict[str, object]]:
    return [{"key": key, "value": value} for key, value in record.headers() or ()]


def _timestamp_ms(record: Message) -> int | None:
    kind, milliseconds = record.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else int(milliseconds)


def _timestamp_us(record: Message) -> int | None:
    """Microseconds; null where the record has no timestamp or one that no timestamp can hold."""
    milliseconds = _timestamp_ms(record)
    if milliseconds is None or abs(milliseconds) > _MAX_TIMESTAMP_MS:
        return None
    return milliseconds * 1000
