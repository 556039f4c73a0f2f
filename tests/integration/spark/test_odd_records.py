"""B16: any bytes in key, value and headers become a row or a dead letter that holds them."""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Producer
from tests.support.batches import Batches, document
from tests.support.damage import batching_producer, stored_batches, with_checksum

from tidemark.kafka.headers import headers_of
from tidemark.kafka.spans import read_spans
from tidemark.model.batch import ONLY, DeadLetter
from tidemark.model.offsets import Span
from tidemark.spark.reader import read
from tidemark_local.stack import LocalStack

Topic = Callable[..., str]


def produced(
    stack: LocalStack, kafka: str, topic: str, value: bytes, written: list[tuple[str, bytes | None]]
) -> None:
    """A record with these headers, `<>` and `!` made bytes that no client of ours writes, and one
    without any."""
    producer = batching_producer(kafka, topic)
    producer.produce(topic, value, b"\xff\0", partition=0, headers=written)
    producer.produce(topic, document(1), partition=0)
    assert producer.flush(60) == 0
    (batch,) = stored_batches(stack, topic)
    data = batch.file.read_bytes().replace(b"<>key", b"\xff\xfekey").replace(b"a!b", b"a\0b")
    batch.file.write_bytes(with_checksum(data))


GIVEN: list[tuple[str, bytes | None]] = [
    ("ключ", b"x" * 9000), ("k" * 64, b"\0"), ("", None), ("", b""), ("same", b"1"), ("same", b"2")
]  # fmt: skip
NOT_UTF8: list[tuple[str, bytes | None]] = [("<>key", b"1"), ("plain", b"2")]


def test_headers_come_out_as_they_are(stack: LocalStack, kafka: str, topic: Topic) -> None:
    """B16: in order, with equal keys, none left out; a key ends at its first NUL."""
    name = topic()
    produced(stack, kafka, name, b"v", [*GIVEN, ("a!b", b"3")])
    lists = read_spans({"bootstrap.servers": kafka}, [Span(name, 0, 0, 2)])
    assert [list(headers_of(one) or ()) for some in lists for one in some] == [
        [*GIVEN, ("a", b"3")],
        [],
    ]


def dead_letters(batches: Batches, *metadata: str, topic: str) -> tuple[tuple[Any, ...], str]:
    """The dead letter of the topic's first record: offset, key, value, headers, reason; detail."""
    spec, span = batches.spec(*metadata), Span(topic, 0, 0, 2)
    batch = batches.new([span], {ONLY: spec.schema})
    recording = batches.recording(spec, batch)
    assert sum(some.num_rows for some in read(recording, [span], 0)) == 1
    found = batches.whole_dead_letters(batch)
    [(offset, key, value, headers, reason, detail)] = found
    return (offset, bytes(key), bytes(value), headers, reason), detail


def test_a_dead_letter_keeps_its_headers_or_says_that_it_has_none(
    stack: LocalStack, kafka: str, topic: Topic, warehouse: dict[str, Any]
) -> None:
    """B16: whether the headers are why it is no row, or not."""
    batches = Batches(kafka, warehouse)
    kept = [{"key": k, "value": None if v is None else b64encode(v).decode()} for k, v in GIVEN]
    for value, written, metadata, headers, reason in [
        (b"no json", GIVEN, [], kept, "INVALID_JSON"),
        (b"no json", NOT_UTF8, [], None, "INVALID_JSON"),
        (document(0), NOT_UTF8, ["headers"], None, "INVALID_UTF8"),
    ]:
        name = topic()
        produced(stack, kafka, name, value, written)
        found, detail = dead_letters(batches, *metadata, topic=name)
        assert found == (0, b"\xff\0", value, headers, reason)
        assert detail.endswith("are not kept") == (headers is None)


def test_headers_that_nobody_asks_for_are_no_fault(
    stack: LocalStack, kafka: str, topic: Topic, warehouse: dict[str, Any]
) -> None:
    name = topic()
    produced(stack, kafka, name, document(0), NOT_UTF8)
    rows = read(Batches(kafka, warehouse).spec(), [Span(name, 0, 0, 2)], 0)
    assert [row["n"] for some in rows for row in some.to_pylist()] == [0, 1]


def test_a_timestamp_that_no_column_holds_is_a_dead_letter(
    kafka: str, topic: Topic, warehouse: dict[str, Any]
) -> None:
    """It was null before, in silence. Without the column the record is a row."""
    name = topic(message_timestamp_after_max_ms=str(2**63 - 1))
    found: list[DeadLetter] = []
    producer = Producer({"bootstrap.servers": kafka})
    last = 253_402_300_799_999
    for number, timestamp in enumerate([2**62, last, last + 1, 1]):
        producer.produce(name, document(number), partition=0, timestamp=timestamp)
    assert producer.flush(60) == 0
    batches, span = Batches(kafka, warehouse), Span(name, 0, 0, 4)
    rows = list(read(batches.spec("timestamp"), [span], 0, found.extend))
    assert [row["n"] for some in rows for row in some.to_pylist()] == [1, 3]
    assert all(row["kafka_timestamp"] for some in rows for row in some.to_pylist())
    assert [(one.offset, one.timestamp_ms, one.reason) for one in found] == [
        (0, 2**62, "OUT_OF_RANGE"),
        (2, last + 1, "OUT_OF_RANGE"),
    ]
    assert sum(some.num_rows for some in read(batches.spec(), [span], 0)) == 4


def test_a_record_without_a_timestamp_has_none(
    kafka: str, topic: Topic, warehouse: dict[str, Any]
) -> None:
    """G155: Kafka's -1 is no time; as a row and as a dead letter. Any other number is one."""
    name = topic()
    producer = Producer({"bootstrap.servers": kafka})
    for value, timestamp in ((document(0), -1), (b"no JSON", -1), (document(2), -2)):
        producer.produce(name, value, partition=0, timestamp=timestamp)
    assert producer.flush(60) == 0
    found: list[DeadLetter] = []
    spec, span = Batches(kafka, warehouse).spec("timestamp"), Span(name, 0, 0, 3)
    rows = [row for some in read(spec, [span], 0, found.extend) for row in some.to_pylist()]
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 998000, UTC)
    assert [row["kafka_timestamp"] for row in rows] == [None, before_1970]
    assert [(one.offset, one.timestamp_ms) for one in found] == [(1, None)]
