"""Membership: takes part in the consumer group and fetches nothing.

One thread owns the consumer: librdkafka's gate lets one caller in at a time and is not fair, so
a second one could wait for ever. Commands reach the owner by a queue; everyone else reads what it
keeps. The group decides WHO works, the ledger decides WHAT counts. Errors after which joining again
cannot help end the membership, in our words.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.errors import TidemarkError
from tidemark.kafka.admin import session_bounds, translated
from tidemark.kafka.config import member_config
from tidemark.kafka.errors import (
    GroupSharesOtherwise,
    MemberEnded,
    SessionOutOfBounds,
    StaticNameTaken,
)
from tidemark.model.membership import GroupProtocol, Membership
from tidemark.model.offsets import TopicPartition, in_ranges
from tidemark.tokens.callbacks import with_oauth

log = logging.getLogger(__name__)


Partitions = frozenset[TopicPartition]
NOTHING: Partitions = frozenset()


class Assignment:
    """The assignment as the last rebalance left it; a failure ends it for good."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._changes = 0
        self._told = 0
        self._assigned = NOTHING
        self._kept = NOTHING
        self._failure: TidemarkError | None = None

    def assigned(self) -> Partitions:
        """The partitions to work on now.

        Raises:
            TidemarkError: what ended the membership.
        """
        with self._changed:
            self._told = self._changes
            if self._failure:
                raise self._failure
            return self._assigned

    def lost_partitions(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Those of the partitions that are known to be another member's to work on."""
        with self._changed:
            return frozenset(partitions) - self._kept

    def wait(self, seconds: float) -> None:
        """Return when `assigned` would tell something new, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes != self._told, seconds)

    def replace(self, partitions: Partitions) -> None:
        """These and no others are assigned."""
        self._set(partitions, partitions)

    def suspend(self) -> None:
        """Work on nothing during a rebalance; a partition that comes back then was never lost."""
        self._set(NOTHING, self._kept)

    def add(self, partitions: Partitions) -> None:
        """These are assigned too."""
        self._set(self._assigned | partitions, self._kept | partitions)

    def remove(self, partitions: Partitions) -> None:
        """These are another member's."""
        self._set(self._assigned - partitions, self._kept - partitions)

    def fail(self, failure: TidemarkError) -> None:
        """Nothing is held and nothing will be; the first failure is the one that is told."""
        with self._changed:
            self._failure = self._failure or failure
        self._set(NOTHING, NOTHING)

    def _set(self, assigned: Partitions, kept: Partitions) -> None:
        with self._changed:
            self._assigned, self._kept = assigned, kept
            self._changes += 1
            self._changed.notify_all()


class Event(StrEnum):
    """The names that a person on call looks for."""

    ASSIGNED = "ASSIGNED"
    REVOKED = "REVOKED"
    LOST = "LOST"
    SESSION_TIMED_OUT = "SESSION_TIMED_OUT"
    POLL_INTERVAL_EXCEEDED = "POLL_INTERVAL_EXCEEDED"
    ALL_BROKERS_DOWN = "ALL_BROKERS_DOWN"


WARNINGS = {Event.SESSION_TIMED_OUT, Event.POLL_INTERVAL_EXCEEDED, Event.ALL_BROKERS_DOWN}


def note(client_id: str, event: Event, what: str | Partitions) -> None:
    """The event stands in the log with the partitions it is about, or with a text."""
    text = what if isinstance(what, str) else in_ranges(what) or "nothing"
    level = logging.WARNING if event in WARNINGS else logging.INFO
    log.log(level, "%s: %s: %s", client_id, event, text)


_FORBIDDEN = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}

REFUSALS = {
    KafkaError._FATAL,
    KafkaError._AUTHENTICATION,
    *_FORBIDDEN,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
}


def refusal(
    error: KafkaError, config: Mapping[str, str], membership: Membership, client_id: str, group: str
) -> TidemarkError:
    """What is said to a member that Kafka answered so."""
    cause = f"Kafka answers {error.name()}: {error.str()}"
    match error.code():
        case KafkaError.INVALID_SESSION_TIMEOUT:
            return SessionOutOfBounds(
                client_id=client_id,
                group=group,
                cause=cause,
                session_timeout_ms=membership.session_timeout_ms,
                bounds=session_bounds(config),
            )
        case KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            is_classic = membership.group_protocol is GroupProtocol.classic
            return GroupSharesOtherwise(
                client_id=client_id,
                group=group,
                cause=cause,
                assignment_strategy=membership.assignment_strategy if is_classic else (),
            )
        case KafkaError._FATAL if membership.instance_id:
            return StaticNameTaken(
                client_id=client_id, group=group, cause=cause, instance_id=membership.instance_id
            )
    ended = MemberEnded(client_id=client_id, group=group, cause=cause)
    if error.code() in _FORBIDDEN:
        return translated(KafkaException(error), str(ended))
    return ended


POLL_SECONDS = 0.1
LEAVE_SECONDS = 15

Command = Callable[[Consumer], None]


class Member:
    """A member of the group; use as a context manager: joined inside, left after."""

    def __init__(
        self,
        config: Mapping[str, str],
        group_id: str,
        topics: Sequence[str],
        client_id: str,
        *,
        membership: Membership = Membership(),  # noqa: B008 (frozen)
    ) -> None:
        self.client_id = client_id
        self._connection = dict(config)
        self._group_id = group_id
        self._topics = list(topics)
        self._membership = membership
        self._config = {
            **member_config(config, group_id, client_id, membership),
            "error_cb": self._on_error,
        }
        self._assignment = Assignment()
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._overslept = False
        self._member_id: str | None = None
        self._ended = False
        self._thread = Thread(target=self._own_consumer, name="group-member", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # close() can hang after a fatal error: a daemon thread is not waited for without end.
        self._commands.put(self._end)
        self._thread.join(LEAVE_SECONDS)

    def assigned(self) -> Partitions:
        """The partitions that this member owns now; none before the first assignment.

        Raises:
            Unreachable: the member can't take part in the group any more.
            InvalidSettings: the broker refuses how it wants to take part.
            Refused: an ACL forbids it.
        """
        return self._assignment.assigned()

    def lost_partitions(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Those of the partitions that this member has lost for good.

        While an eager group shares anew nothing is lost yet: only what the next assignment lacks
        is. After an eviction all of it is, until an assignment gives it back.
        """
        return self._assignment.lost_partitions(partitions)

    def wait(self, seconds: float) -> None:
        """Return when `assigned` would tell something new or fail, or after `seconds`."""
        self._assignment.wait(seconds)

    def _own_consumer(self) -> None:
        try:
            consumer = Consumer(with_oauth(self._config))
            consumer.subscribe(
                self._topics,
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._ended:
                self._poll(consumer)
                while not self._commands.empty():
                    self._commands.get()(consumer)
            consumer.close()
        except TidemarkError as error:
            self._assignment.fail(error)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            self._assignment.fail(
                MemberEnded(client_id=self.client_id, group=self._group_id, cause=cause)
            )

    def _poll(self, consumer: Consumer) -> None:
        message = consumer.poll(POLL_SECONDS)
        error = message.error() if message is not None else None
        if error is None:
            return
        if error.code() == KafkaError._MAX_POLL_EXCEEDED:
            self._overslept = True
            self._note(Event.POLL_INTERVAL_EXCEEDED, f"it left the group and joins anew: {error}")
        elif error.code() in REFUSALS or error.fatal():
            self._fail(error)
        else:
            log.warning("%s: %s", self.client_id, error)

    def _end(self, _: Consumer) -> None:
        self._ended = True

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._note(Event.ALL_BROKERS_DOWN, f"trying again: {error.str()}")
        elif error.code() == KafkaError._FATAL:
            self._fail(error)
        else:
            log.debug("%s: %s", self.client_id, error)

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Take part, fetch nothing: executors read exact spans."""
        assigned = _partitions(partitions)
        self._notice_eviction(consumer.memberid())
        if self._membership.is_incremental:
            consumer.incremental_assign([])
            self._assignment.add(assigned)
        else:
            consumer.assign([])
            self._assignment.replace(assigned)
        self._note(Event.ASSIGNED, assigned)

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        revoked = _partitions(partitions)
        self._accept_loss(consumer)
        if self._membership.is_incremental:
            self._assignment.remove(revoked)
        else:
            self._assignment.suspend()
        self._note(Event.REVOKED, revoked)

    def _on_lost(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        self._accept_loss(consumer)
        self._assignment.replace(NOTHING)
        self._note(Event.LOST, _partitions(partitions))
        self._evicted()

    def _notice_eviction(self, member_id: str) -> None:
        """Who held nothing when it was evicted lost nothing, but comes back under another id."""
        if self._member_id not in (None, member_id):
            self._evicted()
        self._member_id = member_id

    def _evicted(self) -> None:
        if not self._overslept:
            self._note(
                Event.SESSION_TIMED_OUT,
                "the coordinator was silent too long, or had evicted this member; it joins anew",
            )
        self._overslept = False
        self._member_id = None

    def _accept_loss(self, consumer: Consumer) -> None:
        """The binding would otherwise take away itself what was never assigned, and fail."""
        if self._membership.is_incremental:
            consumer.incremental_unassign([])
        else:
            consumer.unassign()

    def _fail(self, error: KafkaError) -> None:
        self._ended = True
        who = self.client_id, self._group_id
        failure = refusal(error, self._connection, self._membership, *who)
        log.error("%s", failure)
        self._assignment.fail(failure)

    def _note(self, event: Event, what: str | Partitions) -> None:
        note(self.client_id, event, what)


def _partitions(partitions: Iterable[KafkaPartition]) -> Partitions:
    return frozenset(TopicPartition(p.topic, p.partition) for p in partitions)
