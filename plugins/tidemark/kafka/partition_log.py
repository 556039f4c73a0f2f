"""The log of one partition, as a consumer that is assigned to it sees it."""

from math import inf

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.model.offsets import TopicPartition

_SECONDS = 5
"""For an answer of the broker."""


class PartitionLog:
    """Where the log begins and ends, and where the consumer stands in it."""

    def __init__(self, consumer: Consumer, partition: TopicPartition) -> None:
        self._consumer = consumer
        self.partition = partition
        self._kafka = KafkaPartition(*partition)

    def position(self) -> int:
        """The consumer's own: it passes markers and aborted records, a record's does not."""
        return int(self._consumer.position([self._kafka])[0].offset)

    def told_end(self) -> float:
        """The log's end as the newest answer of the broker told it; infinite before the first."""
        end = self._consumer.get_watermark_offsets(self._kafka, cached=True)[1]
        return end if end >= 0 else inf

    def range(self) -> tuple[int, int] | None:
        """Start and end, asked of the broker; None if it does not answer."""
        try:
            return self._consumer.get_watermark_offsets(self._kafka, _SECONDS)  # type: ignore[no-any-return]
        except KafkaException:
            return None

    def is_gone(self) -> bool:
        """Whether the broker says that there is no such topic or partition."""
        topic, number = self.partition
        try:
            metadata = self._consumer.list_topics(topic, _SECONDS)
        except KafkaException:
            return False
        return number not in metadata.topics[topic].partitions
