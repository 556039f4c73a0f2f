"""What a consumer complains of while it reads spans, and the errors that end the read."""

from confluent_kafka import KafkaError, Message

from tidemark.kafka.corrupt import PASSING, Unreadable
from tidemark.kafka.errors import OffsetNotHeld, PartitionGone, SpanNotRead
from tidemark.kafka.partition_log import PartitionLog
from tidemark.model.offsets import TopicPartition

GONE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
}
"""Kafka does not hold the position, or holds another history there."""

_REFUSED = {
    KafkaError._FATAL,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


class Complaints:
    """The last complaints of one consumer, of each partition and of no one, and errors of them."""

    def __init__(self, brokers: str | None) -> None:
        self._brokers = brokers
        self._last: dict[TopicPartition | None, str] = {None: "no error was reported"}

    def note(self, error: KafkaError, partition: TopicPartition | None = None) -> None:
        """Keep it, to be named if the read fails."""
        self._last[partition] = f"{error.name()}: {error.str()}"

    def unreadable(self, event: Message, log: PartitionLog, position: int) -> Unreadable | None:
        """None for an error that passes by itself; Unreadable for one that nobody knows.

        Raises:
            DataLost: Kafka does not hold the position.
            Unreachable: Kafka refuses the read.
        """
        error = event.error()
        if error.code() in GONE:
            raise OffsetNotHeld(
                topic_partition=log.partition,
                offset=position,
                log_range=log.range(),
                cause=error.str(),
            )
        if error.code() in _REFUSED or error.fatal():
            self.note(error, log.partition)
            raise self._not_read(log, position)
        if error.code() in PASSING or event.topic() is None:
            self.note(error, None if event.topic() is None else log.partition)
            return None
        is_packed = error.code() == KafkaError._BAD_COMPRESSION
        why = f"{error.name()}: {error.str()}"
        return Unreadable(why, event.offset(), is_packed=is_packed)

    def silence(
        self, log: PartitionLog, position: int, seconds: float
    ) -> PartitionGone | SpanNotRead:
        """The error of a span whose position has not moved for so long."""
        if log.is_gone():
            return PartitionGone(topic_partition=log.partition, offset=position)
        return self._not_read(log, position, seconds)

    def _not_read(
        self, log: PartitionLog, position: int, seconds: float | None = None
    ) -> SpanNotRead:
        return SpanNotRead(
            topic_partition=log.partition,
            offset=position,
            brokers=self._brokers,
            seconds=seconds,
            cause=self._last.get(log.partition, self._last[None]),
        )
