"""Requests to a broker: repeated while it moves, with errors in our words.

And what its settings say of groups: bounds of sessions, and how long offsets are kept.
"""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from tidemark.deadline import Clock, Deadline
from tidemark.errors import TidemarkError
from tidemark.kafka.config import quiet
from tidemark.kafka.errors import (
    SILENCES,
    BrokersSilent,
    BrokersUnreachable,
    KafkaAnswersError,
    KafkaForbids,
    KafkaTopicMissing,
)
from tidemark.tokens.callbacks import with_oauth

SECONDS = 15
AGAIN_SECONDS = 0.2
POLL_SECONDS = 0.25
AWAY_SECONDS = 4.0
"""Without any broker that can be reached; the client tries each again and again meanwhile."""

MOVING = {
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNSTABLE_OFFSET_COMMIT",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
}
"""Answers of a broker that has just started, elects a leader, or has a commit pending."""

Asked = TypeVar("Asked")


class _Moving(Exception):
    """In place of an answer: ask again."""


class Admin(AdminClient):  # type: ignore[misc]
    """An AdminClient that remembers why its brokers can't be reached."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._heard: list[KafkaError] = []
        super().__init__(with_oauth({**quiet(config), "error_cb": self._heard.append}))

    def complaint(self, of_all: bool = False) -> KafkaError | None:
        """The newest error of a connection since the last answer; `of_all`: if none is left."""
        self.poll(0)
        is_last = any(one.name() == "_ALL_BROKERS_DOWN" for one in self._heard)
        causes = [one for one in self._heard if one.name() != "_ALL_BROKERS_DOWN"]
        return causes[-1] if causes and (is_last or not of_all) else None

    def forget(self) -> None:
        """A broker has answered; what was complained of before, and waits to be told, is past."""
        self.poll(0)
        self._heard.clear()


def request(
    admin: Admin | None, ask: Callable[[], Any], what: str, none_if: Collection[str] = ()
) -> Any:
    """The broker's answer, asked again while things move; None if it is an error of `none_if`.

    `admin` is who asks, and knows why nobody answers; None: another client.

    Raises:
        Unreachable: no broker answers. InvalidSettings: no such topic. Refused: an ACL forbids it.
    """
    deadline = Deadline(SECONDS)
    while True:
        with suppress(_Moving):
            return _answer(admin, ask, what, none_if, deadline)
        time.sleep(AGAIN_SECONDS)


def request_each(
    admin: Admin | None,
    asked: "Mapping[Asked, Future[Any]]",
    ask: "Callable[[list[Asked]], Mapping[Asked, Future[Any]]]",
    what: Callable[[Asked], str] = str,
    none_if: Collection[str] = (),
    *,
    clock: Clock = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[Asked, Any]:
    """The answers to what was asked, as `request` gives each; those that move are asked together.

    A round is one request, however many of a region's partitions have no leader yet. The patience
    begins anew when fewer move than before.

    Raises:
        Unreachable, InvalidSettings, Refused: as `request` for one of them, which is named.
    """
    deadline = Deadline(SECONDS, clock)
    found: dict[Asked, Any] = dict.fromkeys(asked)  # in this order, however long one moves
    while True:
        moving = []
        for one, future in asked.items():
            answer = partial(_result, admin, future, what(one))
            try:
                found[one] = _answer(admin, answer, what(one), none_if, deadline)
            except _Moving:
                moving.append(one)
        if not moving:
            return found
        if len(moving) < len(asked):
            deadline = Deadline(SECONDS, clock)
        sleep(AGAIN_SECONDS)
        asked = ask(moving)


def _answer(
    admin: Admin | None,
    ask: Callable[[], Any],
    what: str,
    none_if: Collection[str],
    deadline: Deadline,
) -> Any:
    """The answer.

    Raises:
        _Moving: things move, and the deadline is not past.
        Unreachable, InvalidSettings, Refused: see `request`.
    """
    try:
        asked = ask()
        found = _result(admin, asked, what) if isinstance(asked, Future) else asked
    except KafkaException as error:
        name = error.args[0].name()
        if name in none_if:
            return None
        if admin and name in SILENCES and (why := admin.complaint()):
            raise _unreachable(what, why) from error
        if name not in MOVING or deadline.is_past:
            raise translated(error, what) from error
        raise _Moving from error
    if admin:
        admin.forget()
    return found


def _result(admin: Admin | None, asked: Future[Any], what: str) -> Any:
    """The answer; once no broker can be reached it is not waited for any longer."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < SECONDS + 5:
        try:
            return asked.result(POLL_SECONDS)
        except TimeoutError:
            if admin and waited > AWAY_SECONDS and (why := admin.complaint(of_all=True)):
                raise _unreachable(what, why) from None
    raise BrokersSilent(what=what, seconds=SECONDS)


def _unreachable(what: str, why: KafkaError) -> BrokersUnreachable:
    return BrokersUnreachable(
        what=what, answer=why.name(), cause=why.str().partition(" (after ")[0]
    )


def translated(error: KafkaException, what: str) -> TidemarkError:
    """A Kafka error by its code, in our words; the cause is kept by the caller."""
    fault = error.args[0]
    name = fault.name()
    if name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
        return KafkaTopicMissing(what=what)
    if name.endswith("AUTHORIZATION_FAILED"):
        return KafkaForbids(what=what, answer=name)
    return KafkaAnswersError(what=what, answer=name, cause=fault.str())


BOUNDS = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")


def session_bounds(config: Mapping[str, str]) -> tuple[int, int] | None:
    """The shortest and the longest session time-out in ms; None where that may not be asked."""
    settings = broker_settings(config)
    if settings is None:
        return None
    low, high = (int(settings[name].value) for name in BOUNDS)
    return low, high


def offsets_kept_minutes(config: Mapping[str, str]) -> int | None:
    """How long the offsets of a group without members are kept; None where it may not be asked."""
    settings = broker_settings(config)
    return None if settings is None else int(settings["offsets.retention.minutes"].value)


def broker_settings(config: Mapping[str, str]) -> Any:
    """The settings of one broker by their names; None where that may not be asked.

    It needs the ACL DescribeConfigs on the cluster, which Tidemark does not need otherwise.
    """
    admin = Admin(config)
    try:
        return request(admin, lambda: _settings(admin), "broker settings")
    except TidemarkError:
        return None


def _settings(admin: Admin) -> Any:
    cluster = request(
        admin, lambda: admin.describe_cluster(request_timeout=SECONDS), "the Kafka cluster"
    )
    broker = ConfigResource(ConfigResource.Type.BROKER, str(cluster.nodes[0].id))
    return admin.describe_configs([broker], request_timeout=SECONDS)[broker]
