"""The region's consumer group: its offsets, its one mirror writer, who is in it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from tidemark import failpoints
from tidemark.errors import Fenced
from tidemark.kafka.facts import SECONDS, quiet, translated
from tidemark.offsets import Offsets, TopicPartition

ASK_AGAIN_SECONDS = 0.2
MOVING_CODES = {
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "UNSTABLE_OFFSET_COMMIT",
}
FENCED_CODES = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}


@dataclass(frozen=True, slots=True)
class Holder:
    """A member of the group as Kafka knows it."""

    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        held = ", ".join(map(str, self.partitions)) or "nothing"
        return f"{self.client_id} on {self.host} holds {held}"


class Group:
    """One consumer group; its mirror is written in transactions of one transactional.id."""

    def __init__(self, config: Mapping[str, str], group_id: str) -> None:
        self.group_id = group_id
        self._config = dict(config)
        self._admin = AdminClient(quiet(self._config))

    @property
    def transactional_id(self) -> str:
        """The region's ONE transactional.id: a newer writer fences every older one."""
        return f"tidemark-{self.group_id}"

    @contextmanager
    def writer(self) -> Iterator["MirrorWriter"]:
        """Fence every earlier mirror writer, by init_transactions.

        Raises:
            Unreachable: Kafka does not answer.
        """
        with _kafka_errors(f"mirror of group {self.group_id}"):
            producer = Producer(quiet({**self._config, "transactional.id": self.transactional_id}))
            producer.init_transactions(SECONDS)
            yield MirrorWriter(producer, self._config, self.group_id)

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The group's offsets of these partitions; a pending transaction is waited for.

        Asked by name: a broker leaves partitions whose only commit is pending out of "all".
        """
        named = [KafkaPartition(*partition) for partition in partitions]
        with _kafka_errors(f"offsets of group {self.group_id}"):
            found = self._ask(
                lambda: self._admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(self.group_id, named)],
                    require_stable=True,
                    request_timeout=SECONDS,
                ),
                _stable,
            ).topic_partitions
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def holders(self) -> list[Holder]:
        """Who is in the group now, and what each holds."""
        with _kafka_errors(f"members of group {self.group_id}"):
            described = self._ask(
                lambda: self._admin.describe_consumer_groups(
                    [self.group_id], request_timeout=SECONDS
                )
            )
        return [
            Holder(
                member.client_id,
                member.host,
                tuple(
                    TopicPartition(p.topic, p.partition)
                    for p in (member.assignment.topic_partitions if member.assignment else [])
                ),
            )
            for member in (described.members if described else ())
        ]

    def _ask(
        self, ask: Callable[[], dict[str, Future[Any]]], check: Callable[[Any], Any] = lambda _: _
    ) -> Any:
        """The group's answer, asked again while its coordinator moves; None: no such group."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return check(ask()[self.group_id].result())
            except KafkaException as error:
                name = error.args[0].name()
                if name == "GROUP_ID_NOT_FOUND":
                    return None
                if name not in MOVING_CODES or time.monotonic() > deadline:
                    raise
            time.sleep(ASK_AGAIN_SECONDS)


class MirrorWriter:
    """Writes group offsets in one Kafka transaction, as a consumer that never joined.

    Membership plays no part in the order of mirrors: producer fencing alone does, so a
    mirror needs no empty group and no generation (notes of KIP-447; tried on Kafka 4.1).
    """

    def __init__(self, producer: Producer, config: Mapping[str, str], group_id: str) -> None:
        self._producer = producer
        self._consumer = Consumer(
            quiet({**config, "group.id": group_id, "enable.auto.commit": "false"})
        )

    def commit(self, offsets: Offsets, metadata: str) -> None:
        """Write all offsets, or none."""
        self._producer.begin_transaction()
        self._producer.send_offsets_to_transaction(
            [KafkaPartition(*partition, offset, metadata) for partition, offset in offsets.items()],
            self._consumer.consumer_group_metadata(),
            SECONDS,
        )
        failpoints.hit("mirror.sent")
        self._producer.commit_transaction(SECONDS)
        self._consumer.close()


def _stable(answer: Any) -> Any:
    """The answer, or the error that one of its partitions carries."""
    for partition in answer.topic_partitions:
        if partition.error:
            raise KafkaException(partition.error)
    return answer


@contextmanager
def _kafka_errors(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        if error.args[0].name() in FENCED_CODES:
            raise Fenced(f"{what}: a newer mirror writer took over") from error
        raise translated(error, what) from error
