"""A consumer written by hand: decode, COPY and the next offsets in one Postgres transaction.

One process a core; each has its share of the partitions and its own connections.
"""

import io
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from typing import Any

import msgspec
import psycopg2
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from psycopg2 import sql

JOB: dict[str, Any] = json.loads(os.environ.get("PEER_JOB", "{}"))
TYPES: dict[str, type] = {"int": int, "string": str, "timestamp": str}
"""Postgres reads a timestamp from its text."""
ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
CONSUME = 10_000
OFFSETS = """
CREATE TABLE IF NOT EXISTS {} (kafka_partition int PRIMARY KEY, next_offset bigint NOT NULL)
"""
BEGIN = "INSERT INTO {} SELECT unnest(%s), 0 ON CONFLICT DO NOTHING"
NEXT = "SELECT * FROM {} WHERE kafka_partition = ANY (%s)"
MOVE = "UPDATE {} SET next_offset = %s WHERE kafka_partition = %s AND next_offset = %s"


def drain(share: int) -> None:
    """All of this share's partitions, from the offsets that Postgres has to their ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": JOB["bootstrap"],
            "group.id": JOB["table"],
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    known = consumer.list_topics(JOB["topic"], timeout=20).topics[JOB["topic"]].partitions
    own = [partition for partition in sorted(known) if partition % JOB["cores"] == share]
    with closing(consumer), closing(psycopg2.connect(**JOB["postgres"])) as connection:
        with connection, connection.cursor() as cursor:
            cursor.execute(of_offsets(BEGIN), [own])
            cursor.execute(of_offsets(NEXT), [own])
            offsets = dict(cursor.fetchall())
        consumer.assign([TopicPartition(JOB["topic"], p, offset) for p, offset in offsets.items()])
        for messages in batches(consumer, JOB["batch"] // JOB["cores"], len(own)):
            publish(connection, messages, offsets)


def batches(consumer: Consumer, size: int, partitions: int) -> Iterator[list[Message]]:
    """Up to `size` messages at a time, until the end of each partition was seen."""
    ended = 0
    while ended < partitions:
        batch: list[Message] = []
        while len(batch) < size and ended < partitions:
            for message in consumer.consume(min(CONSUME, size - len(batch)), timeout=0.1):
                if message.error() is None:
                    batch.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended += 1
                else:
                    raise KafkaException(message.error())
        if batch:
            yield batch


def publish(connection: Any, messages: list[Message], offsets: dict[int, int]) -> None:
    """Rows and next offsets, or neither.

    Raises:
        RuntimeError: another process has published these partitions meanwhile.
    """
    after = {message.partition(): message.offset() + 1 for message in messages}
    names = [*JOB["schema"], "kafka_topic", "kafka_partition", "kafka_offset"]
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    copy = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(JOB["table"]), columns)
    with connection, connection.cursor() as cursor:
        cursor.copy_expert(copy, lines(messages), size=1 << 20)
        for partition, offset in after.items():
            cursor.execute(of_offsets(MOVE), [offset, partition, offsets[partition]])
            if cursor.rowcount != 1:
                raise RuntimeError(f"partition {partition} is not at {offsets[partition]} any more")
    offsets |= after


def lines(messages: list[Message]) -> io.StringIO:
    """The rows in the text format of COPY."""
    fields = [(name, TYPES[kind] | None, None) for name, kind in JOB["schema"].items()]
    decode = msgspec.json.Decoder(msgspec.defstruct("Record", fields)).decode
    values = msgspec.structs.astuple
    text = io.StringIO()
    for message in messages:
        row = "\t".join(map(column, values(decode(message.value()))))
        text.write(f"{row}\t{message.topic()}\t{message.partition()}\t{message.offset()}\n")
    text.seek(0)
    return text


def column(value: str | int | None) -> str:
    """One column as COPY reads it."""
    if value is None:
        return r"\N"
    return value.translate(ESCAPES) if isinstance(value, str) else str(value)


def of_offsets(statement: str) -> sql.Composed:
    """Of the table of the next offsets."""
    return sql.SQL(statement).format(sql.Identifier(f"{JOB['table']}_offsets"))


if __name__ == "__main__":
    with closing(psycopg2.connect(**JOB["postgres"])) as connection, connection:
        connection.cursor().execute(of_offsets(OFFSETS))
    started = time.monotonic()
    fork = get_context("fork")
    shares = [fork.Process(target=drain, args=(share,)) for share in range(JOB["cores"])]
    for process in shares:
        process.start()
    for process in shares:
        process.join()
    print(json.dumps({"seconds": time.monotonic() - started}))
    sys.exit(max(abs(process.exitcode or 0) for process in shares))
