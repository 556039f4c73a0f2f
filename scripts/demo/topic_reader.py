"""A topic read once more, without Tidemark: what proofs compare a target with."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition


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
