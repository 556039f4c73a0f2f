"""Sending records to the output topic, inside a transaction that the mirror has begun."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException, Producer

from tidemark import failpoints
from tidemark.errors import TidemarkError
from tidemark.kafka.config import Settings
from tidemark.kafka.errors import (
    OutputForbidden,
    OutputNotSentInTime,
    OutputRecordInvalid,
    OutputRecordTooLarge,
)
from tidemark.model.output import OutputRecord, Topics

SENDING: Settings = {"partitioner": "murmur2_random", "message.max.bytes": 1_000_000_000}
"""A key goes to the partition that Java's producers choose, and the topic alone limits a record:
the client's own limit is below what Kafka takes. A connection may set them otherwise."""

FENCED_CODES = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}

FULL_SECONDS = 0.1
"""How long is waited for room in the producer's queue, until it is looked at again."""

IN_FLIGHT_SECONDS = 2.0
"""How long an abort waits for what is in flight. One that meets the first records of a transaction
there can end the producer with INVALID_TXN_STATE (librdkafka #4849)."""


class Sender:
    """Sends the records of one transaction after another.

    It needs no delivery reports: a record that fails fails its transaction, with the reason. Nor
    can it have any: a fatal error in the same poll would break their callback.
    """

    def __init__(
        self,
        producer: Producer,
        topics: Topics,
        seconds: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._seconds = seconds
        self._clock = clock
        self._deadline = 0.0

    @contextmanager
    def sending(self, records: Iterable[OutputRecord]) -> Iterator[None]:
        """The brokers have all records; the block commits. What fails in either is aborted.

        Raises:
            OutputTooLarge: it takes longer than a transaction may.
            Refused: Kafka does not take a record; or what `records` raises.
        """
        self._deadline = self._clock() + self._seconds
        try:
            for record in records:
                self._produce(record)
            failpoints.hit("mirror.sending")
            self._flush()
            yield
        except KafkaException as error:
            ended = self._aborted()
            cause = ended if ended and error.args[0].name() == "_FATAL" else error
            raise self._told(cause) or cause from error
        except Exception:
            self._aborted()
            raise

    def _aborted(self) -> KafkaException | None:
        """Nothing of the transaction is seen; returns what had ended the producer, if it was.

        A record that is handed to such a producer fails without saying that: as _FATAL.
        """
        try:
            self._producer.flush(IN_FLIGHT_SECONDS)
            self._producer.abort_transaction(self._seconds)
        except KafkaException as error:
            return error
        return None

    @property
    def _is_late(self) -> bool:
        return self._clock() > self._deadline

    def _produce(self, record: OutputRecord) -> None:
        while not self._is_late:
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, headers=list(record.headers)
                )
            except BufferError:
                self._producer.poll(FULL_SECONDS)
            else:
                self._producer.poll(0)
                return
        raise self._too_slow()

    def _flush(self) -> None:
        if self._producer.flush(max(0.0, self._deadline - self._clock())):
            raise self._too_slow()

    def _told(self, error: KafkaException) -> TidemarkError | None:
        """The error in our words, where it is one of records."""
        failed = error.args[0]
        if self._is_late and failed.name() in FENCED_CODES:  # the brokers have ended it themselves
            return self._too_slow()
        if failed.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
            return OutputRecordTooLarge(topics=self._topics, cause=failed.str())
        if failed.name() == "INVALID_RECORD":
            return OutputRecordInvalid(topics=self._topics, cause=failed.str())
        if failed.name() == "TOPIC_AUTHORIZATION_FAILED":
            return OutputForbidden(topics=self._topics, answer=failed.name())
        return None

    def _too_slow(self) -> OutputNotSentInTime:
        return OutputNotSentInTime(topics=self._topics, seconds=self._seconds)
