"""B16: any bytes in key, value and headers become a row or a dead letter that holds them."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from tests.support.batches import Batches, document
from tests.support.damage import batching_producer, stored_batches, with_checksum

from tidemark.kafka.headers import headers_of
from tidemark.kafka.spans import read_spans
from tidemark.local.stack import LocalStack
from tidemark.model.batch import ONLY, DeadLetter
from tidemark.model.offsets import Span
from tidemark.spark.reader import read

Topic = Callable[..., str]

ODD = [(b"\xff\xfekey", b"\0"), (b"a\0b", None), (b"", b""), (b"same", b"1"), (b"same", b"2")]


def odd_headers(stack: LocalStack, kafka: str, topic: str, value: bytes) -> None:
    """One record with odd headers, and one without any. No client of ours writes such keys."""
    producer = batching_producer(kafka, topic)
    written = [("<>key", b"\0"), ("a!b", None), *((key.decode(), one) for key, one in ODD[2:])]
    producer.produce(topic, value, b"\xff\0", partition=0, headers=written)
    producer.produce(topic, document(1), partition=0)
    assert producer.flush(60) == 0
    (batch,) = stored_batches(stack, topic)
    data = batch.file.read_bytes().replace(b"<>key", b"\xff\xfekey").replace(b"a!b", b"a\0b")
    batch.file.write_bytes(with_checksum(data))


SHAPES: list[list[tuple[str | bytes, bytes | None]]] = [
    [("a\0b", b"1"), ("plain", b"2")],
    [("c\0", None)],
    [(b"\xff\xfekey", b"1"), ("a\0b", b"2")],
    [("ключ", b"x" * 63), ("k" * 63, b"x" * 64), ("k" * 64, b"x" * 9000), ("é" * 40, b"\0")],
    [("", None), ("", b""), ("same", b"1"), ("same", b"1")],
    [],
]


def test_headers_of_any_shape_come_out_exactly(stack: LocalStack, kafka: str, topic: Topic) -> None:
    """B16: also where the client itself cuts a key and raises nothing."""
    name = topic()
    producer = batching_producer(kafka, name)
    odd = {"a!b": b"a\0b", "c!": b"c\0", "<>key": b"\xff\xfekey"}
    written = {real.decode("latin-1"): plain for plain, real in odd.items()}
    for shape in SHAPES:
        keys = [key if isinstance(key, str) else key.decode("latin-1") for key, _ in shape]
        values = [value for _, value in shape]
        headers = [(written.get(key, key), one) for key, one in zip(keys, values, strict=True)]
        producer.produce(name, b"v", partition=0, headers=headers)
    assert producer.flush(60) == 0
    (batch,) = stored_batches(stack, name)
    data = batch.file.read_bytes()
    for plain, real in odd.items():
        data = data.replace(plain.encode(), real)
    batch.file.write_bytes(with_checksum(data))
    lists = read_spans({"bootstrap.servers": kafka}, [Span(name, 0, 0, len(SHAPES))])
    assert [list(headers_of(one) or ()) for some in lists for one in some] == SHAPES


def headers_json() -> list[dict[str, Any]]:
    """How the ledger keeps the odd headers."""
    return [
        {"key": r"\xff\xfekey", "key_base64": b64encode(b"\xff\xfekey").decode(), "value": "AA=="},
        {"key": r"a\x00b", "key_base64": b64encode(b"a\0b").decode(), "value": None},
        {"key": "", "value": ""},
        {"key": "same", "value": "MQ=="},
        {"key": "same", "value": "Mg=="},
    ]


def letters(batches: Batches, *metadata: str, topic: str) -> list[tuple[Any, ...]]:
    """What was staged of the topic's two records: offset, key, value, headers, reason."""
    spec, span = batches.spec(*metadata), Span(topic, 0, 0, 2)
    batch = batches.new([span], {ONLY: spec.schema})
    recording = batches.recording(spec, batch)
    assert sum(some.num_rows for some in read(recording, [span], 0)) == 1
    found = batches.whole_letters(batch)
    return [(o, bytes(k), bytes(v), headers, reason) for o, k, v, headers, reason in found]


def test_odd_headers_are_kept_byte_for_byte_in_a_dead_letter(
    stack: LocalStack, kafka: str, topic: Topic, warehouse: dict[str, Any]
) -> None:
    """B16: whether the headers are why it is no row, or not."""
    batches = Batches(kafka, warehouse)
    for value, metadata, reason in [
        (document(0), ["headers"], "INVALID_UTF8"),
        (b"no json", [], "INVALID_JSON"),
    ]:
        name = topic()
        odd_headers(stack, kafka, name, value)
        expected = (0, b"\xff\0", value, headers_json(), reason)
        assert letters(batches, *metadata, topic=name) == [expected]


def test_odd_headers_that_nobody_asks_for_are_no_fault(
    stack: LocalStack, kafka: str, topic: Topic, warehouse: dict[str, Any]
) -> None:
    name = topic()
    odd_headers(stack, kafka, name, document(0))
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
