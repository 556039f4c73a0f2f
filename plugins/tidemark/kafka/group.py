"""The region's consumer group: its offsets, who is in it, and its one mirror writer."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.kafka._client import idle_client
from tidemark.kafka._mirror_writer import (
    FENCED_CODES,
    NO_TOPIC,
    MirrorWriter,
    TopicsGone,
    new_writer,
)
from tidemark.kafka.admin import SECONDS, request, translated
from tidemark.kafka.config import quiet
from tidemark.kafka.description import GroupState, Holder, describe_group, transactional_id_of
from tidemark.kafka.errors import MirrorTopicsGone, MirrorWriterFenced
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.output import Sent
from tidemark.protocol.ports import Output
from tidemark.tokens.callbacks import with_oauth

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
        """See `transactional_id_of`."""
        return transactional_id_of(self.group_id)

    @contextmanager
    def writer(self) -> Iterator[MirrorWriter]:
        """A writer that has fenced every earlier one, by init_transactions.

        It is the one of the last mirror, or else a new one. A writer that was made elsewhere since
        then has fenced it: it writes nothing, and the next call makes a new one.

        Raises:
            Unreachable: Kafka does not answer.
            Fenced: a newer writer took over.
        """
        with _kafka_errors(self.group_id), self._observer() as observer:
            writer = idle_client(self._writers) or new_writer(
                self._config, self.transactional_id, observer.consumer_group_metadata(), self.output
            )
            yield writer
            self._writers.append(writer)

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The group's offsets of these partitions; a pending transaction is waited for."""
        return {p: offset for p, (offset, _) in self.committed_metadata(partitions).items()}

    def committed_metadata(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Read the group's offsets of these partitions, each with the metadata written beside it.

        By a consumer that never joins, at read_committed (KIP-447). The admin client's
        list_consumer_group_offsets can abort the process, see description.py.
        """
        named = [KafkaPartition(*partition) for partition in partitions]
        with self._observer() as consumer:
            found = request(
                None, lambda: _committed(consumer, named), f"offsets of group {self.group_id}"
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
        """Close the group's Kafka clients."""
        self._writers.clear()
        while observer := idle_client(self._observers):
            observer.close()

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
        wanted = quiet({"retry.backoff.ms": RETRY_MS, **self._config, **own})
        return Consumer(with_oauth(wanted))


def _committed(consumer: Consumer, named: list[KafkaPartition]) -> list[KafkaPartition]:
    """What the group has committed; a partition without an answer is not one without a commit."""
    found: list[KafkaPartition] = consumer.committed(named, timeout=SECONDS)
    for one in found:
        if one.error and one.error.name() not in NO_TOPIC:
            raise KafkaException(one.error)
    return found


@contextmanager
def _kafka_errors(group_id: str) -> Iterator[None]:
    try:
        yield
    except TopicsGone as error:
        raise MirrorTopicsGone(group=group_id, topics=error.topics) from error
    except KafkaException as error:
        if error.args[0].name() in FENCED_CODES:
            raise MirrorWriterFenced(group=group_id) from error
        raise translated(error, f"mirror of group {group_id}") from error
