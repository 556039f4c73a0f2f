"""A span is read exactly, whatever stands between its records; what is recorded is one whole."""

import itertools
import json
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.batches import Batches, document, documents
from tests.support.failpoint import failpoint
from tests.support.produce import produce, produce_transaction
from tests.support.waiting import until

from tidemark.failpoints import FailpointHit
from tidemark.kafka.config import READER_SETTINGS, reader_config
from tidemark.kafka.errors import BatchUnreadable, OffsetNotHeld, PartitionGone, SpanNotRead
from tidemark.kafka.spans import read_spans
from tidemark.model.batch import ONLY, DeadLetter
from tidemark.model.offsets import LogPosition, Span
from tidemark.postgres.errors import StagingDiscarded
from tidemark.spark import reader, records
from tidemark.spark.reader import read

Topic = Callable[..., str]


def offsets(
    kafka: str, span: Span, read_up_to: LogPosition | None = None, **settings: Any
) -> list[int]:
    positions = {span.topic_partition: read_up_to} if read_up_to else {}
    config = {"bootstrap.servers": kafka}
    lists = read_spans(config, [span], read_up_to=positions, **settings)
    return [message.offset() for messages in lists for message in messages]


def test_a_transactional_log_is_read_exactly_from_any_offset_to_any_offset(
    kafka: str, topic: Topic
) -> None:
    name, end = topic(), 0
    visible: list[int] = []
    for count, abort in [(3, False), (2, True), (1, False), (1, True)]:
        produce_transaction(kafka, name, documents(count), abort=abort)
        visible += [] if abort else range(end, end + count)
        end += count + 1  # the marker
    for start, stop in itertools.combinations(range(end + 1), 2):
        expected = [offset for offset in visible if start <= offset < stop]
        assert offsets(kafka, Span(name, 0, start, stop)) == expected, (start, stop)


def test_a_span_of_aborted_records_alone_is_complete_and_empty(kafka: str, topic: Topic) -> None:
    name = topic()
    produce_transaction(kafka, name, documents(50), abort=True)
    assert offsets(kafka, Span(name, 0, 0, 51), no_progress_seconds=30) == []


@pytest.mark.long
def test_a_compacted_log_is_read_over_its_gaps(kafka: str, topic: Topic) -> None:
    name = topic(
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="100",
        min_compaction_lag_ms="0",
        max_compaction_lag_ms="100",
    )
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    end = 0

    def compacted() -> bool:
        """Segments roll by age, while records come."""
        nonlocal end
        for key in range(10):
            producer.produce(name, document(key), str(key), partition=0)
        assert producer.flush(60) == 0
        end += 10
        return len(offsets(kafka, Span(name, 0, 0, end))) < end

    until(compacted)
    before = offsets(kafka, Span(name, 0, 0, end))
    gap = next(offset for offset in range(end) if offset not in before)
    for start, stop in [(0, gap + 1), (gap, gap + 1), (gap, end)]:
        found = offsets(kafka, Span(name, 0, start, stop))
        after = offsets(kafka, Span(name, 0, 0, end))  # the cleaner may go on meanwhile
        inside = [[o for o in some if start <= o < stop] for some in (before, after)]
        assert set(inside[1]) <= set(found) <= set(inside[0])
        assert found == sorted(found)


def test_an_open_transaction_holds_a_span_that_reaches_into_it(kafka: str, topic: Topic) -> None:
    name = topic()
    produce(kafka, name, documents(3))
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(name, document(3), partition=0)
    producer.flush(60)
    assert offsets(kafka, Span(name, 0, 0, 3)) == [0, 1, 2]
    with pytest.raises(SpanNotRead) as silent:
        offsets(kafka, Span(name, 0, 3, 4), no_progress_seconds=1)
    assert (silent.value.offset, silent.value.seconds) == (3, 1)
    producer.commit_transaction(120)
    assert offsets(kafka, Span(name, 0, 0, 4)) == [0, 1, 2, 3]


def test_an_offset_below_the_log_start_is_lost_data(
    kafka: str, admin: AdminClient, topic: Topic
) -> None:
    name = topic()
    produce(kafka, name, documents(20))
    admin.delete_records([TopicPartition(name, 0, 8)])[TopicPartition(name, 0)].result(120)
    with pytest.raises(OffsetNotHeld) as lost:
        offsets(kafka, Span(name, 0, 5, 12))
    assert (lost.value.offset, lost.value.log_range) == (5, (8, 20))
    assert offsets(kafka, Span(name, 0, 8, 12)) == [8, 9, 10, 11]


@pytest.mark.long
def test_a_topic_that_is_gone_is_lost_data(kafka: str) -> None:
    with pytest.raises(PartitionGone) as lost:
        offsets(kafka, Span("never-was", 0, 0, 4), no_progress_seconds=1)
    assert (lost.value.topic_partition.topic, lost.value.offset) == ("never-was", 0)


def test_a_connection_cannot_unset_what_exactness_needs() -> None:
    given = dict.fromkeys(READER_SETTINGS, "user")
    config = reader_config(given | {"fetch.wait.max.ms": "7", "sasl.password": "secret"})
    assert {key: config[key] for key in READER_SETTINGS} == READER_SETTINGS
    assert (config["fetch.wait.max.ms"], config["sasl.password"]) == ("7", "secret")


def test_rows_carry_coordinates_and_the_metadata_asked_for(
    kafka: str, topic: Topic, batches: Batches
) -> None:
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(
        name,
        document(1),
        b"key",
        1,
        timestamp=1_700_000_000_123,
        headers=[("h", b"\0"), ("h", None)],
    )
    producer.flush()
    (rows,) = read(batches.spec("key", "timestamp", "headers"), [Span(name, 1, 0, 1)], 0)
    (row,) = rows.to_pylist()
    assert rows.schema.names[:2] == ["n", "text"]
    assert (row["n"], row["text"]) == (1, "record 1")
    assert (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) == (name, 1, 0)
    assert row["kafka_key"] == b"key"
    assert row["kafka_timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert row["kafka_headers"] == [{"key": "h", "value": b"\0"}, {"key": "h", "value": None}]


def test_bad_records_shift_no_neighbour(kafka: str, topic: Topic, batches: Batches) -> None:
    name = topic()
    produce(kafka, name, [document(0), b"{", None, document(3), b'{"n":"x"}', document(5)])
    dead_letters: list[DeadLetter] = []
    (rows,) = read(batches.spec(), [Span(name, 0, 0, 6)], 0, dead_letters.extend)
    assert rows.column("n").to_pylist() == rows.column("kafka_offset").to_pylist() == [0, 3, 5]
    assert [(dead_letter.offset, dead_letter.value) for dead_letter in dead_letters] == [
        (1, b"{"),
        (2, None),
        (4, b'{"n":"x"}'),
    ]


def test_large_records_make_short_blocks(
    kafka: str, topic: Topic, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    produce(kafka, name, [json.dumps({"n": n, "text": "x" * 1000}).encode() for n in range(4000)])
    monkeypatch.setattr(records, "BYTES_A_BLOCK", 1_000_000)
    sizes = [batch.num_rows for batch in read(batches.spec(), [Span(name, 0, 0, 4000)], 0)]
    assert sum(sizes) == 4000
    assert max(sizes) <= 3001  # a list of the client at most beyond the bound


def test_a_batch_that_is_too_large_unpacked_is_told_from_a_corrupt_one(
    kafka: str, topic: Topic, batches: Batches
) -> None:
    """G121: it stops the run by its name, or is read by itself and becomes a dead letter."""
    name = topic()
    producer = Producer(
        {"bootstrap.servers": kafka, "message.max.bytes": 64 << 20, "compression.type": "zstd"}
    )
    for value in (document(0), b"0" * (20 << 20), document(2)):
        producer.produce(name, value, partition=0)
        assert producer.flush(120) == 0
    spans, dead_letters = [Span(name, 0, 0, 3)], list[DeadLetter]()
    tight = {"bootstrap.servers": kafka, "receive.message.max.bytes": 4 << 20}
    stops = replace(batches.spec(dead_letter_bytes=1000), kafka=tight)
    with pytest.raises(BatchUnreadable) as met:
        [*read(stops, spans, 0)]
    assert (met.value.is_packed, met.value.offset) == (True, 1)
    rows = [*read(replace(stops, max_unpacked=64 << 20), spans, 0, dead_letters.extend)]
    assert [n for batch in rows for n in batch.column("n").to_pylist()] == [0, 2]
    [dead_letter] = dead_letters
    assert (dead_letter.offset, dead_letter.reason, dead_letter.whole_bytes) == (
        1,
        "TOO_LARGE",
        20 << 20,
    )
    assert dead_letter.value == b"0" * 1000


def test_the_end_of_a_span_records_its_read_and_dead_letters(
    kafka: str, topic: Topic, batches: Batches
) -> None:
    name = topic(partitions=2)
    produce_transaction(kafka, name, [document(0), b"bad", document(2)], 0)
    produce(kafka, name, documents(5), 1)
    spans = [Span(name, 0, 0, 4), Span(name, 1, 1, 4)]
    batch = batches.new(spans, {ONLY: batches.spec().schema})
    list(read(batches.spec(staging=batch.staging), spans, 3))
    assert batches.reads(batch) == [(0, 0, 4, 3, 3, 1), (1, 1, 4, 3, 3, 0)]
    assert batches.dead_letters(batch) == [(0, 1, 3, "INVALID_JSON")]


@pytest.mark.long
def test_dead_letters_and_their_read_are_one_transaction(
    kafka: str, topic: Topic, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    produce(kafka, name, [b"bad"] * 10)
    span = Span(name, 0, 0, 10)
    batch = batches.new([span], {ONLY: batches.spec().schema})
    monkeypatch.setattr(reader, "BUFFER_BYTES", 10)  # they go to Postgres before the end
    with failpoint("read.staged"), pytest.raises(FailpointHit):
        list(read(batches.spec(staging=batch.staging), [span], 0))
    assert (batches.reads(batch), batches.dead_letters(batch)) == ([], [])
    list(read(batches.spec(staging=batch.staging), [span], 1))
    assert batches.reads(batch) == [(0, 0, 10, 1, 10, 10)]
    assert len(batches.dead_letters(batch)) == 10


@pytest.mark.long
def test_a_reader_closed_early_records_nothing(
    kafka: str, topic: Topic, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even of a span that it has read whole."""
    name = topic(partitions=2)
    for partition in (0, 1):
        produce(kafka, name, [b"bad", *documents(9_999)], partition)
    monkeypatch.setattr(records, "RECORDS_A_BLOCK", 2_000)
    monkeypatch.setattr(reader, "BUFFER_BYTES", 1)
    spans = [Span(name, 0, 0, 10_000), Span(name, 1, 0, 10_000)]
    batch = batches.new(spans, {ONLY: batches.spec().schema})
    reading = read(batches.spec(staging=batch.staging), spans, 0)
    rows = itertools.accumulate(some.num_rows for some in reading)
    assert next(count for count in rows if count > 10_000) < 19_998
    assert isinstance(reading, Generator)
    reading.close()
    assert (batches.reads(batch), batches.dead_letters(batch)) == ([], [])


@pytest.mark.parametrize("buffer", [-1, reader.BUFFER_BYTES])
def test_an_attempt_that_reads_its_spans_twice_records_them_once(
    kafka: str, topic: Topic, batches: Batches, monkeypatch: pytest.MonkeyPatch, buffer: int
) -> None:
    """Also where dead letters go to Postgres before the end."""
    monkeypatch.setattr(reader, "BUFFER_BYTES", buffer)
    name = topic(partitions=2)
    produce(kafka, name, [document(0), b"bad"])
    produce(kafka, name, documents(1), 1)
    spans = [Span(name, 0, 0, 2), Span(name, 1, 0, 1)]
    batch = batches.new(spans, {ONLY: batches.spec().schema})
    recording = batches.recording(batches.spec(), batch)
    for _ in range(2):
        assert sum(some.num_rows for some in read(recording, spans, 0)) == 2
    assert batches.reads(batch) == [(0, 0, 2, 0, 2, 1), (1, 0, 1, 0, 1, 0)]
    assert len(batches.dead_letters(batch)) == 1


def test_a_reader_of_a_discarded_batch_says_so(kafka: str, topic: Topic, batches: Batches) -> None:
    name = topic()
    produce(kafka, name, documents(2))
    span = Span(name, 0, 0, 2)
    batch = batches.new([span], {ONLY: batches.spec().schema})
    batches.drop(batch)
    with pytest.raises(StagingDiscarded):
        list(read(batches.spec(staging=batch.staging), [span], 0))


def test_secrets_are_in_no_repr(batches: Batches) -> None:
    spec = replace(batches.spec(), kafka={"sasl.password": "hush"}, postgres={"password": "hush"})
    assert "hush" not in repr(spec)
