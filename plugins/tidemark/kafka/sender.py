"""Sending records to the output topic, inside a transaction that the mirror has begun."""

import time
from collections.abc import Iterable
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidemark import failpoints
from tidemark.errors import OutputTooLarge, Refused
from tidemark.kafka.config import Settings
from tidemark.model.output import OutputRecord

SENDING: Settings = {"partitioner": "murmur2_random"}
"""A key goes to the partition that Java's producers choose. A connection may set it otherwise."""

FULL_SECONDS = 0.1
"""How long is waited for room in the producer's queue, until it is looked at again."""

TOO_LARGE = {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}


class Sender:
    """Sends the records of one transaction after another."""

    def __init__(self, producer: Producer, topic: str, seconds: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._seconds = seconds or 0
        self._deadline = 0.0
        self._failed: KafkaError | None = None

    def begin(self) -> None:
        """A transaction begins now."""
        self._deadline = time.monotonic() + self._seconds

    def send(self, records: Iterable[OutputRecord]) -> None:
        """The brokers have all of them, or the transaction is aborted.

        Raises:
            OutputTooLarge: it takes longer than a transaction may.
            Refused: Kafka does not take a record; or what `records` raises.
        """
        try:
            for record in records:
                self._produce(record)
            failpoints.hit("mirror.sending")
            self._flush()
        except (Exception, KeyboardInterrupt):
            with suppress(KafkaException):
                self._producer.abort_transaction(self._seconds)
            raise

    @property
    def is_late(self) -> bool:
        """The transaction has taken longer than it may."""
        return time.monotonic() > self._deadline

    def _produce(self, record: OutputRecord) -> None:
        while True:
            if self.is_late:
                raise self.too_slow()
            self._refuse_failure()
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(FULL_SECONDS)
                continue
            except KafkaException as error:
                self._failed = error.args[0]
                continue
            self._producer.poll(0)
            return

    def _flush(self) -> None:
        left = self._producer.flush(max(0.0, self._deadline - time.monotonic()))
        self._refuse_failure()
        if left:
            raise self.too_slow()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._failed = self._failed or error

    def _refuse_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is None:
            return
        if failed.name() in TOO_LARGE:
            raise Refused(
                f"a row is larger than Kafka takes in topic {self._topic} ({failed.str()}): raise"
                " max.message.bytes of the topic and message.max.bytes in the connection's extra"
            )
        if failed.name() == "TOPIC_AUTHORIZATION_FAILED":
            raise Refused(
                f"topic {self._topic}: Kafka answers {failed.name()}; grant WRITE and DESCRIBE on"
                " the output topic"
            )
        raise KafkaException(failed)

    def too_slow(self) -> OutputTooLarge:
        """The error for a transaction that took too long."""
        return OutputTooLarge(
            f"the rows could not be sent to topic {self._topic} in one transaction of"
            f" {self._seconds} s; nothing of them was. Raise output.max_seconds (up to the brokers'"
            " transaction.max.timeout.ms), or lower output.max_rows if they are of several batches;"
            " lower batch.max_records for batches to come"
        )
