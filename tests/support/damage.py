"""Damage on the broker's disk: bytes of a record batch are flipped in the segment file itself."""

import struct
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tidemark_local.stack import LocalStack

HEADER = {"length": 8, "magic": 16, "checksum": 17, "attributes": 22, "delta": 26, "records": 57}
"""Where some fields of a batch stand (format 2). The checksum covers what follows it."""

RECORDS = 10
BATCHES = 4


@dataclass(frozen=True)
class StoredBatch:
    """One batch in a segment file."""

    file: Path
    at: int
    size: int
    start: int
    end: int

    def flip(self, byte: int, bits: int = 1) -> None:
        """Flip bits of one of its bytes; a negative number counts from its end."""
        place = self.at + (byte if byte >= 0 else self.size + byte)
        with self.file.open("r+b") as file:
            file.seek(place)
            (found,) = file.read(1)
            file.seek(place)
            file.write(bytes([found ^ bits]))


def stored_batches(stack: LocalStack, topic: str, partition: int = 0) -> list[StoredBatch]:
    """The batches of a partition's only segment, in order."""
    folder = stack.folder.root / "kafka" / "data" / f"{topic}-{partition}"
    (file,) = folder.glob("*.log")
    data, batches, at = file.read_bytes(), list[StoredBatch](), 0
    while at < len(data):
        start, length = struct.unpack_from(">qi", data, at)
        (delta,) = struct.unpack_from(">i", data, at + 23)
        batches.append(StoredBatch(file, at, 12 + length, start, start + delta + 1))
        at += 12 + length
    return batches


def batching_producer(kafka: str, topic: str, codec: str = "none") -> Producer:
    """What is produced before a flush is one batch.

    It knows the topic's partitions: a first record that waited for them would go alone.
    """
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5000, "compression.type": codec})
    producer.list_topics(topic, timeout=120)
    return producer


def fill(kafka: str, topic: str, codec: str = "none", value: bytes = b"value", at: int = 0) -> None:
    """Batches of ten records each are in the topic."""
    producer = batching_producer(kafka, topic, codec)
    for batch in range(BATCHES):
        for number in range(RECORDS):
            name = b"%d " % (at + batch * RECORDS + number)
            producer.produce(topic, name + value, partition=0)
        assert producer.flush(120) == 0


def batch_header(start: int, records: int) -> bytes:
    """A batch of so many offsets and no record, with a checksum that holds."""
    covered = struct.pack(">hiqqqhii", 0, records - 1, 0, 0, -1, -1, -1, 0)
    return struct.pack(">qiibI", start, 9 + len(covered), 0, 2, _crc32c(covered)) + covered


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def with_checksum(batch: bytes) -> bytes:
    """The same bytes of one batch, with a checksum that holds."""
    return batch[:17] + struct.pack(">I", _crc32c(batch[21:])) + batch[21:]


CRAFTED = b"".join(batch_header(30, 10) for _ in range(6))
"""Where the client goes on after a checksum that fails, it may find this and pass ten offsets."""

DEADLY = CRAFTED + b"x" * 5
"""With it the client goes on in the middle of such a header, and aborts the process."""
