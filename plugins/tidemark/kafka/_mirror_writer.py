"""The mirror's writer: offsets, and the records of an output, in one Kafka transaction."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from threading import Thread

from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark import failpoints
from tidemark.deadline import Clock, Deadline
from tidemark.errors import TidemarkError
from tidemark.kafka.admin import SECONDS
from tidemark.kafka.config import Settings, quiet
from tidemark.kafka.errors import (
    BrokersSilent,
    OutputForbidden,
    OutputNotSentInTime,
    OutputRecordInvalid,
    OutputRecordTooLarge,
    OutputTopicGone,
)
from tidemark.model.offsets import Offsets
from tidemark.model.output import OutputRecord, Topics
from tidemark.model.plain import amount
from tidemark.protocol.ports import Output
from tidemark.tokens.callbacks import with_oauth

log = logging.getLogger(__name__)

SENDING: Settings = {"partitioner": "murmur2_random", "message.max.bytes": 1_000_000_000}
"""A key goes to the partition that Java's producers choose, and the topic alone limits a record:
the client's own limit is below what Kafka takes. A connection may set another limit."""

NO_TOPIC = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}


class TopicsGone(Exception):
    """Offsets are not taken for topics that Kafka does not have; which, as it tells now."""

    def __init__(self, topics: Collection[str]) -> None:
        super().__init__(*sorted(topics))
        self.topics = tuple(sorted(topics))


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
        self, producer: Producer, topics: Topics, seconds: int, clock: Clock = time.monotonic
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._seconds = seconds
        self._clock = clock
        self._deadline: Deadline
        """Of the transaction that is under way."""

    @contextmanager
    def sending(self, records: Iterable[OutputRecord]) -> Iterator[None]:
        """The brokers have all records; the block commits. What fails in either is aborted.

        Raises:
            OutputTooLarge: it takes longer than a transaction may.
            Refused: Kafka does not take a record; or what `records` raises.
        """
        self._deadline = Deadline(self._seconds, self._clock)
        try:
            for record in records:
                self._produce(record)
            failpoints.hit("mirror.sending")
            self._flush()
            yield
        except KafkaException as error:
            ended = self._aborted()
            cause = ended if ended and error.args[0].name() == "_FATAL" else error
            raise self._translated(cause) or cause from error
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

    def _produce(self, record: OutputRecord) -> None:
        while not self._deadline.is_past:
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
        if self._producer.flush(self._deadline.left):
            raise self._too_slow()

    def _translated(self, error: KafkaException) -> TidemarkError | None:
        """The error in our words, where it is one of records."""
        failed = error.args[0]
        is_fenced = failed.name() in FENCED_CODES
        if is_fenced and self._deadline.is_past:  # the brokers have ended the transaction
            return self._too_slow()
        if failed.name() in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
            return OutputRecordTooLarge(topics=self._topics, cause=failed.str())
        if failed.name() == "INVALID_RECORD":
            return OutputRecordInvalid(topics=self._topics, cause=failed.str())
        if failed.name() in NO_TOPIC:
            return OutputTopicGone(topic=" and ".join(self._topics.names))
        if failed.name() == "TOPIC_AUTHORIZATION_FAILED":
            return OutputForbidden(topics=self._topics, answer=failed.name())
        return None

    def _too_slow(self) -> OutputNotSentInTime:
        return OutputNotSentInTime(topics=self._topics, seconds=self._seconds)


TRANSACTION_TIMEOUT_MS = 15_000
"""How long a mirror that died in its commit can keep others from reading the group's offsets."""

OFFSETS_TOPIC = "__consumer_offsets"
"""Of Kafka's own; it is asked for, not read."""

CONNECT_SECONDS = 2.0

GRACE_SECONDS = 5.0
"""For a call of the client beyond its own time-out, before it is left alone."""


class MirrorWriter:
    """Writes group offsets in one Kafka transaction, as a consumer that never joined.

    Membership plays no part in the order of mirrors: producer fencing alone does, so a
    mirror needs no empty group and no generation (notes of KIP-447; tried on Kafka 4.1).
    """

    def __init__(
        self, producer: Producer, group_metadata: bytes, sender: Sender | None = None
    ) -> None:
        self._producer = producer
        self._group_metadata = group_metadata
        self._sender = sender

    def commit(self, offsets: Offsets, metadata: str, records: Iterable[OutputRecord] = ()) -> None:
        """Write all offsets and records, or none.

        Raises:
            OutputTooLarge: the records can't be sent within the time of a transaction.
        """
        self._producer.begin_transaction()
        with self._sender.sending(records) if self._sender else nullcontext():
            self._commit(offsets, metadata)

    def _commit(self, offsets: Offsets, metadata: str) -> None:
        found = [KafkaPartition(*one, offset, metadata) for one, offset in offsets.items()]
        try:
            bounded(
                lambda: self._producer.send_offsets_to_transaction(
                    found, self._group_metadata, SECONDS
                ),
                f"offsets of {amount(len(found), 'partition')}",
            )
        except KafkaException as error:
            if error.args[0].name() not in NO_TOPIC:
                raise
            raise TopicsGone({one.topic for one in offsets} - self._topics()) from error
        failpoints.hit("mirror.sent")
        self._producer.commit_transaction(SECONDS)

    def _topics(self) -> set[str]:
        """What Kafka lists; all that it was asked for, if it does not answer."""
        try:
            return set(self._producer.list_topics(timeout=SECONDS).topics)
        except KafkaException:
            return set()


def new_writer(
    config: Mapping[str, str], transactional_id: str, group_metadata: bytes, output: Output | None
) -> MirrorWriter:
    """A writer that has fenced every earlier one of this transactional.id, by init_transactions."""
    milliseconds = output.max_seconds * 1000 if output else TRANSACTION_TIMEOUT_MS
    own = {"transactional.id": transactional_id, "transaction.timeout.ms": str(milliseconds)}
    sending = SENDING if output else {}
    # Its log says FATAL of a fenced producer, which is an error like others: nobody polls it.
    producer = Producer(with_oauth(quiet({**sending, **config, **own})), logger=log)
    connect(producer)
    producer.init_transactions(SECONDS)
    sender = Sender(producer, output.topics, output.max_seconds) if output else None
    return MirrorWriter(producer, group_metadata, sender)


def bounded(call: Callable[[], object], what: str) -> None:
    """The call has ended; one that does not is left alone, with the client that it holds.

    Where a coordinator goes away, librdkafka's own time-out is not kept (#5456, #5511).

    Raises:
        Unreachable: it goes on. Nothing that it writes is committed: the next writer fences it.
    """
    ended: Future[None] = Future()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # whoever waits raises it
            ended.set_exception(error)
        else:
            ended.set_result(None)

    Thread(target=run, name="mirror", daemon=True).start()
    try:
        ended.result(SECONDS + GRACE_SECONDS)
    except TimeoutError:
        raise BrokersSilent(what=what, seconds=SECONDS) from None


def connect(producer: Producer) -> None:
    """A broker is connected, if one answers soon.

    Where none is, init_transactions looks again for its coordinator only after half a second. The
    first answer can come by a connection that is then given up for one by the broker's own name.
    """
    with suppress(KafkaException):
        for _ in range(2):
            producer.list_topics(OFFSETS_TOPIC, timeout=CONNECT_SECONDS)
