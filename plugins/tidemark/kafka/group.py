"""The region's consumer group: its offsets, who is in it, and its one mirror writer.

Inside a transaction that the mirror has begun, the writer sends records to the output topic too.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from threading import Thread

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark import failpoints
from tidemark.deadline import Clock
from tidemark.errors import TidemarkError
from tidemark.kafka._client import idle_client
from tidemark.kafka.admin import SECONDS, request, translated
from tidemark.kafka.config import Settings, quiet
from tidemark.kafka.description import GroupState, Holder, describe_group
from tidemark.kafka.errors import (
    BrokersSilent,
    MirrorWriterFenced,
    OutputForbidden,
    OutputNotSentInTime,
    OutputRecordInvalid,
    OutputRecordTooLarge,
)
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.output import OutputRecord, Sent, Topics
from tidemark.model.plain import amount
from tidemark.protocol.ports import Output

log = logging.getLogger(__name__)


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
        clock: Clock = time.monotonic,
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


TRANSACTION_TIMEOUT_MS = 15_000
"""How long a mirror that died in its commit can keep others from reading the group's offsets."""

OFFSETS_TOPIC = "__consumer_offsets"
"""Of Kafka's own; it is asked for, not read."""

CONNECT_SECONDS = 2.0

GRACE_SECONDS = 5.0
"""For a call of the client beyond its own time-out, before it is left alone."""

RETRY_MS = 10
"""Right after a mirror its offsets are pending for some milliseconds; then they are asked again."""


class Group:
    """One consumer group; its mirror is written in transactions of one transactional.id.

    Its clients are kept for the next mirror, unless they failed: a new one has to connect first.
    """

    def __init__(
        self, config: Mapping[str, str], group_id: str, output: Output | None = None
    ) -> None:
        self.group_id = group_id
        self.output = output
        self._config = dict(config)
        self._writers: list[MirrorWriter] = []
        self._observers: list[Consumer] = []

    @property
    def transactional_id(self) -> str:
        """The region's ONE transactional.id: a newer writer fences every older one."""
        return f"tidemark-{self.group_id}"

    @contextmanager
    def writer(self) -> Iterator["MirrorWriter"]:
        """A writer that has fenced every earlier one, by init_transactions.

        It is the one of the last mirror, or else a new one. A writer that was made elsewhere since
        then has fenced it: it writes nothing, and the next call makes a new one.

        Raises:
            Unreachable: Kafka does not answer.
            Fenced: a newer writer took over.
        """
        with _kafka_errors(self.group_id), self._observer() as observer:
            writer = idle_client(self._writers) or self._new_writer(observer)
            yield writer
            self._writers.append(writer)

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The group's offsets of these partitions; a pending transaction is waited for."""
        return {p: offset for p, (offset, _) in self.committed_metadata(partitions).items()}

    def committed_metadata(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]]:
        """The same, each offset with the metadata it was written with.

        By a consumer that never joins, at read_committed (KIP-447). The admin client's
        list_consumer_group_offsets can abort the process, see description.py.
        """
        named = [KafkaPartition(*partition) for partition in partitions]
        with self._observer() as consumer:
            found = request(
                None,
                lambda: consumer.committed(named, timeout=SECONDS),
                f"offsets of group {self.group_id}",
            )
        return {
            TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "")
            for p in found
            if p.offset >= 0
        }

    def sent(self, partitions: Iterable[TopicPartition]) -> set[Sent]:
        """What the metadata of these offsets name as sent; a pending transaction is waited for."""
        found = self.committed_metadata(partitions).values()
        return {sent for _, metadata in found if (sent := Sent.parse(metadata))}

    def holders(self) -> list[Holder]:
        """Who is in the group now, and what each holds."""
        return list(self.describe().holders)

    def describe(self) -> GroupState:
        """How the group is now; one that Kafka does not know is dead, which is no error."""
        return describe_group(self._config, self.group_id)

    def close(self) -> None:
        """The clients end."""
        self._writers.clear()
        while observer := idle_client(self._observers):
            observer.close()

    def _new_writer(self, observer: Consumer) -> "MirrorWriter":
        output = self.output
        milliseconds = output.max_seconds * 1000 if output else TRANSACTION_TIMEOUT_MS
        own = {
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": str(milliseconds),
        }
        sending = SENDING if output else {}
        # Its log says FATAL of a fenced producer, which is an error like others: nobody polls it.
        producer = Producer(quiet({**sending, **self._config, **own}), logger=log)
        connect(producer)
        producer.init_transactions(SECONDS)
        sender = Sender(producer, output.topics, output.max_seconds) if output else None
        return MirrorWriter(producer, observer.consumer_group_metadata(), sender)

    @contextmanager
    def _observer(self) -> Iterator[Consumer]:
        """A consumer of the group that never joins it."""
        consumer = idle_client(self._observers) or self._new_observer()
        try:
            yield consumer
        except BaseException:
            consumer.close()
            raise
        self._observers.append(consumer)

    def _new_observer(self) -> Consumer:
        own = {"group.id": self.group_id, "enable.auto.commit": "false"}
        return Consumer(quiet({"retry.backoff.ms": RETRY_MS, **self._config, **own}))


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
        bounded(
            lambda: self._producer.send_offsets_to_transaction(
                found, self._group_metadata, SECONDS
            ),
            f"offsets of {amount(len(found), 'partition')}",
        )
        failpoints.hit("mirror.sent")
        self._producer.commit_transaction(SECONDS)


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


@contextmanager
def _kafka_errors(group_id: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        if error.args[0].name() in FENCED_CODES:
            raise MirrorWriterFenced(group=group_id) from error
        raise translated(error, f"mirror of group {group_id}") from error
