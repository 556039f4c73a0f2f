"""Membership: takes part in the consumer group and fetches nothing.

One thread owns the consumer; everyone else reads the assignment that it keeps. The group
decides WHO works, the ledger decides WHAT counts.
"""

import logging
from collections.abc import Mapping, Sequence
from threading import Condition, Thread
from typing import Self

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.errors import TidemarkError, Unreachable
from tidemark.kafka.asking import quiet
from tidemark.offsets import TopicPartition

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
LEAVE_SECONDS = 15
SESSION_TIMEOUT_MS = 10_000

OWN = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": 2_000,
    "max.poll.interval.ms": 300_000,
    "topic.metadata.refresh.interval.ms": 30_000,
}
FATAL = {KafkaError._FATAL, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION}


class Member:
    """A member of the group; use as a context manager: joined inside, left after."""

    def __init__(
        self, config: Mapping[str, str], group_id: str, topics: Sequence[str], client_id: str
    ) -> None:
        self._consumer_config = {**config, **OWN, "group.id": group_id, "client.id": client_id}
        self._topics = list(topics)
        self._changed = Condition()
        self._assigned: frozenset[TopicPartition] | None = None
        self._failure: TidemarkError | None = None
        self._leaving = False
        self._thread = Thread(target=self._own_consumer, name="group-member", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # close() can hang after a fatal error: a daemon thread is not waited for without end.
        self._leaving = True
        self._thread.join(LEAVE_SECONDS)

    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that this member owns now; none before the first assignment.

        Raises:
            Unreachable: the member can't take part in the group any more.
        """
        with self._changed:
            if self._failure:
                raise self._failure
            return self._assigned or frozenset()

    def wait(self, seconds: float) -> None:
        """Return when something is assigned or the member failed, or after `seconds`."""
        with self._changed:
            if not self._assigned and not self._failure:
                self._changed.wait(seconds)

    def _own_consumer(self) -> None:
        try:
            consumer = Consumer(quiet(self._consumer_config))
            consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._drop, on_lost=self._drop
            )
            while not self._leaving and not self._failure:
                self._look(consumer)
            consumer.close()
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")

    def _look(self, consumer: Consumer) -> None:
        message = consumer.poll(POLL_SECONDS)
        if message is None or message.error() is None:
            return
        error = message.error()
        log.warning("group member: %s", error)
        if error.code() in FATAL or error.fatal():
            self._fail(str(error))

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        consumer.assign([])  # take part, fetch nothing: executors read exact spans
        self._set(frozenset(TopicPartition(p.topic, p.partition) for p in partitions))

    def _drop(self, consumer: Consumer, _: list[KafkaPartition]) -> None:
        consumer.unassign()
        self._set(frozenset())

    def _set(self, partitions: frozenset[TopicPartition]) -> None:
        with self._changed:
            self._assigned = partitions
            self._changed.notify_all()
        log.info("assigned %s", ", ".join(map(str, sorted(partitions))) or "nothing")

    def _fail(self, text: str) -> None:
        with self._changed:
            self._failure = Unreachable(f"group member: {text}; it can't take part any more")
            self._changed.notify_all()
