"""Records become rows: a block of messages is decoded into one Arrow batch and dead letters."""

from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from tidemark.decode import Decoded, Reason, Rejected
from tidemark.kafka.headers import Headers, HeadersOf, headers_of
from tidemark.kafka.timestamps import timestamp_ms
from tidemark.model.batch import SET_ASIDE, DeadLetter
from tidemark.model.dead_letters import record_hash
from tidemark.model.offsets import TopicPartition
from tidemark.spark.record_decoder import RecordDecoder

RECORDS_A_BLOCK = 10_000
BYTES_A_BLOCK = 16 << 20

_UTC = pa.timestamp("us", "UTC")
_COORDINATES = (
    pa.field("kafka_topic", pa.string()),
    pa.field("kafka_partition", pa.int32()),
    pa.field("kafka_offset", pa.int64()),
)
_PLACE = [field.name for field in _COORDINATES]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TOMBSTONE = "kafka_tombstone"
"""The column that tells a record without a value."""
_METADATA = {
    "key": pa.field("kafka_key", pa.binary()),
    "timestamp": pa.field("kafka_timestamp", _UTC),
    "headers": pa.field("kafka_headers", _HEADERS),
    "tombstone": pa.field(TOMBSTONE, pa.bool_()),
}
_YEARS_1_TO_9999_MS = range(-62_135_596_800_000, 253_402_300_800_000)
"""What Python, Arrow and Postgres all hold as a timestamp, as for the fields of a value."""


_NO_HEADERS = "the Kafka client can't return the record's headers, so they are not kept"


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
    decoder: RecordDecoder, records: list[Message], schema: pa.Schema
) -> tuple[pa.RecordBatch, list[DeadLetter]]:
    """Rows of the good records in their order, dead letters of the others."""
    if not records:
        return pa.RecordBatch.from_pylist([], schema), []
    headers = _asked_once()
    decoded = _with_metadata(decoder.decode(records, headers), records, schema, headers)
    is_each = not decoded.rejected and decoded.rows.num_rows == len(records)
    good = records if is_each else [records[i] for i in decoded.kept.to_pylist()]
    columns = [
        *decoded.rows.columns,
        *(_column(field, good, headers) for field in list(schema)[decoded.rows.num_columns :]),
    ]
    dead_letters = [
        dead_letter(records[one.index], one.reason, one.detail, headers) for one in decoded.rejected
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema), dead_letters


def count_records(rows: pa.RecordBatch) -> int:
    """How many records the rows are of: one may have two, side by side."""
    return int(rows.num_rows - _seconds(rows).true_count)


def records_by_partition(rows: pa.RecordBatch) -> dict[tuple[str, int], int]:
    """The same by topic and partition."""
    firsts = rows.filter(pc.invert(_seconds(rows)))
    places = pa.table(firsts.select(_PLACE[:2]))
    counted = places.group_by(_PLACE[:2], use_threads=False).aggregate([([], "count_all")])
    return {
        (topic, partition): count
        for topic, partition, count in zip(*counted.to_pydict().values(), strict=True)
    }


def _seconds(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows are of the record of the row in front of them."""
    before, after = rows.slice(0, max(rows.num_rows - 1, 0)), rows.slice(1)
    same = pa.array([False] * min(rows.num_rows, 1), pa.bool_())
    found = pc.equal(before[_PLACE[2]], after[_PLACE[2]])
    if found.true_count:
        for name in _PLACE[:2]:
            found = pc.and_(found, pc.equal(before[name], after[name]))
    return pa.concat_arrays([same, found])


def parted(
    records: list[Message], set_aside: Collection[tuple[str, int, int]]
) -> tuple[list[Message], list[DeadLetter]]:
    """The records to decode, and those that are not, as dead letters without a fault."""
    if not set_aside:
        return records, []
    rest, aside = list[Message](), list[DeadLetter]()
    for record in records:
        if (record.topic(), record.partition(), record.offset()) in set_aside:
            aside.append(dead_letter(record, SET_ASIDE, "", headers_of))
        else:
            rest.append(record)
    return rest, aside


def dead_letter(
    record: Message, reason: str, detail: str, headers_of_record: HeadersOf
) -> DeadLetter:
    """The record as it came, with the reason why it is no row."""
    headers = headers_of_record(record)
    key, value = record.key(), record.value()
    return DeadLetter(
        *TopicPartition(record.topic(), record.partition()),
        offset=record.offset(),
        timestamp_ms=timestamp_ms(record),
        key=key,
        value=value,
        headers=None if headers is None else tuple(headers),
        reason=reason,
        detail=detail if headers is not None else f"{detail}; {_NO_HEADERS}",
        hash=record_hash(key, value, headers),
    )


def _with_metadata(
    decoded: Decoded, records: list[Message], schema: pa.Schema, headers: HeadersOf
) -> Decoded:
    """The same, with the records rejected whose metadata no column can hold."""
    known: dict[str, Callable[[Message], tuple[Reason, str] | None]] = {
        "kafka_timestamp": _timestamp_fault,
        "kafka_headers": lambda record: _headers_fault(headers(record)),
    }
    checks = [check for name, check in known.items() if name in schema.names]
    kept = decoded.kept.to_pylist() if checks else []
    bad = {
        index: refusal
        for index in kept
        if (refusal := next(filter(None, (check(records[index]) for check in checks)), None))
    }
    if not bad:
        return decoded
    stays = pa.array([index not in bad for index in kept])
    rejected = [*decoded.rejected, *(Rejected(index, *why) for index, why in bad.items())]
    rejected.sort(key=lambda one: one.index)
    return Decoded(decoded.rows.filter(stays), decoded.kept.filter(stays), rejected)


def _timestamp_fault(record: Message) -> tuple[Reason, str] | None:
    found = timestamp_ms(record)
    if found is None or found in _YEARS_1_TO_9999_MS:
        return None
    return (
        Reason.OUT_OF_RANGE,
        f"the record's timestamp, {found} ms, lies outside the years 1 to 9999",
    )


def _headers_fault(headers: Headers | None) -> tuple[Reason, str] | None:
    if headers is not None:
        return None
    return Reason.INVALID_UTF8, f"a header's key is not valid UTF-8; {_NO_HEADERS}"


def _asked_once() -> HeadersOf:
    """The headers of a block's records: to ask for them is costly, and may work once only."""
    known: dict[int, Headers | None] = {}

    def headers(record: Message) -> Headers | None:
        if id(record) not in known:
            known[id(record)] = headers_of(record)
        return known[id(record)]

    return headers


def _column(field: pa.Field, records: list[Message], headers: HeadersOf) -> pa.Array:
    """One metadata column."""
    match field.name:
        case "kafka_topic":
            return pa.array(list(map(Message.topic, records)), pa.string())
        case "kafka_partition":
            return pa.array(list(map(Message.partition, records)), pa.int32())
        case "kafka_offset":
            return pa.array(list(map(Message.offset, records)), pa.int64())
        case "kafka_key":
            return pa.array([record.key() for record in records], pa.binary())
        case "kafka_tombstone":
            return pa.array([record.value() is None for record in records], pa.bool_())
        case "kafka_timestamp":
            return pa.array(map(_timestamp_us, records), pa.int64()).cast(_UTC)
        case _:
            return pa.array([headers(record) or () for record in records], _HEADERS)


def _timestamp_us(record: Message) -> int | None:
    """Microseconds; null where the record has no timestamp."""
    milliseconds = timestamp_ms(record)
    return None if milliseconds is None else milliseconds * 1000
