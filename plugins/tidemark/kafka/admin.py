"""Requests to a broker: repeated while it moves, with errors in our words."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from tidemark.errors import TidemarkError
from tidemark.kafka.errors import (
    BrokersSilent,
    KafkaAnswersError,
    KafkaForbids,
    KafkaTopicMissing,
)

SECONDS = 15
AGAIN_SECONDS = 0.2

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


_MOVES = object()
"""In place of an answer: ask again."""

Asked = TypeVar("Asked")


def request(ask: Callable[[], Any], what: str, none_if: str | None = None) -> Any:
    """The broker's answer, asked again while things move; None if it is the error `none_if`.

    Raises:
        Unreachable: no broker answers. InvalidSettings: no such topic. Refused: an ACL forbids it.
    """
    deadline = time.monotonic() + SECONDS
    while (found := _answer(ask, what, none_if, deadline)) is _MOVES:
        time.sleep(AGAIN_SECONDS)
    return found


def request_each(
    asked: "Mapping[Asked, Future[Any]]",
    ask: "Callable[[list[Asked]], Mapping[Asked, Future[Any]]]",
    what: Callable[[Asked], str] = str,
    none_if: str | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[Asked, Any]:
    """The answers to what was asked, as `request` gives each; those that move are asked together.

    A round is one request, however many of a region's partitions have no leader yet. The patience
    begins anew when fewer move than before.

    Raises:
        Unreachable, InvalidSettings, Refused: as `request` for one of them, which is named.
    """
    deadline = clock() + SECONDS
    found: dict[Asked, Any] = {}
    while True:
        for one, future in asked.items():
            answered = partial(future.result, SECONDS + 5)
            found[one] = _answer(answered, what(one), none_if, deadline, clock)
        moving = [one for one in asked if found[one] is _MOVES]
        if not moving:
            return found
        if len(moving) < len(asked):
            deadline = clock() + SECONDS
        sleep(AGAIN_SECONDS)
        asked = ask(moving)


def _answer(
    ask: Callable[[], Any],
    what: str,
    none_if: str | None,
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> Any:
    """The answer; `_MOVES` while things move, until the deadline."""
    try:
        asked = ask()
        return asked.result(SECONDS + 5) if isinstance(asked, Future) else asked
    except KafkaException as error:
        name = error.args[0].name()
        if name == none_if:
            return None
        if name not in MOVING or clock() > deadline:
            raise translated(error, what) from error
    except TimeoutError as error:
        raise BrokersSilent(what=what, seconds=SECONDS) from error
    return _MOVES


def translated(error: KafkaException, what: str) -> TidemarkError:
    """A Kafka error by its code, in our words; the cause is kept by the caller."""
    fault = error.args[0]
    name = fault.name()
    if name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
        return KafkaTopicMissing(what=what)
    if name.endswith("AUTHORIZATION_FAILED"):
        return KafkaForbids(what=what, answer=name)
    return KafkaAnswersError(what=what, answer=name, cause=fault.str())
