"""The proof: every committed record of the topic is in the target once, and no other row is."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg2
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

SCRATCH = "CREATE TEMP TABLE committed (p int, o bigint, c text, f int, t text, d int)"
DIFFERENCES = """
WITH arrived AS (
    SELECT kafka_partition, kafka_offset, carrier, flight, tailnum, dep_delay FROM public.flights
)
SELECT (SELECT count(*) FROM (TABLE committed EXCEPT ALL TABLE arrived) AS lost),
       (SELECT count(*) FROM (TABLE arrived EXCEPT ALL TABLE committed) AS foreign_rows)
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """Records committed in Kafka, rows of the target, and the differences between them."""

    records: int
    rows: int
    lost: int
    foreign: int

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing doubled, nothing foreign."""
        return self.records == self.rows and not self.lost and not self.foreign


def prove(bootstrap: str, topic: str, postgres: dict[str, Any]) -> Proof:
    """Read the topic once more, without Tidemark, and compare it with the target as multisets."""
    with psycopg2.connect(**postgres) as connection, connection.cursor() as cursor:
        cursor.execute(SCRATCH)
        lines = _Lines(_committed(bootstrap, topic))
        cursor.copy_expert("COPY committed FROM STDIN (FORMAT text)", lines)
        cursor.execute("SELECT (SELECT count(*) FROM committed), count(*) FROM public.flights")
        records, rows = cursor.fetchone() or (0, 0)
        cursor.execute(DIFFERENCES)
        lost, foreign = cursor.fetchone() or (0, 0)
    return Proof(records, rows, lost, foreign)


def _committed(bootstrap: str, topic: str) -> Iterator[str]:
    """Every record visible at read_committed, as a COPY line."""
    for message in committed(bootstrap, topic):
        yield _line(message.partition(), message.offset(), json.loads(message.value()))


def _line(partition: int, offset: int, flight: dict[str, Any]) -> str:
    names = ("carrier", "flight", "tailnum", "dep_delay")
    fields = [partition, offset, *(flight[name] for name in names)]
    return "\t".join(r"\N" if field is None else str(field) for field in fields) + "\n"


class _Lines:
    """What COPY reads from: as many lines at a time as it asks bytes for."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def read(self, size: int) -> str:
        chunk: list[str] = []
        length = 0
        while length < size and (line := next(self._lines, None)) is not None:
            chunk.append(line)
            length += len(line)
        return "".join(chunk)


def committed(bootstrap: str, topic: str) -> Iterator[Message]:
    """Every record visible at read_committed, each partition's in the order of its offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": f"{topic}-proof",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
        }
    )
    partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    unread = set(partitions)
    while unread:
        for message in consumer.consume(5000, 1.0):
            if message.error():
                unread.discard(message.partition())
            else:
                yield message
    consumer.close()
