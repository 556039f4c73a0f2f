"""The settings of membership: what they mean to librdkafka, and what is refused."""

from typing import Any

import pytest

from tidemark.kafka.config import kafka_config, member_config
from tidemark.kafka.description import Holder
from tidemark.model.membership import GroupProtocol, Membership, Strategy
from tidemark.settings.connections import Connection
from tidemark.settings.kafka import KafkaSettings


def settings(**changed: Any) -> KafkaSettings:
    """A section of the file."""
    return KafkaSettings.model_validate({"connection": "k", "topics": ["t"], **changed})


def config(membership: Membership, **connection: str) -> dict[str, Any]:
    """What librdkafka is given."""
    found = Connection("k", "kafka", extra={"bootstrap.servers": "k:9092", **connection})
    return member_config(kafka_config(found), "g", "tidemark-g-1", membership)


def test_members_are_cooperative_and_dynamic_by_default() -> None:
    membership = settings().membership("name")
    assert membership == Membership(
        GroupProtocol.classic, (Strategy.cooperative_sticky,), 10_000, None
    )
    assert membership.is_incremental


@pytest.mark.parametrize(
    ("chosen", "strategies", "incremental"),
    [
        ("range", (Strategy.range,), False),
        (["range", "roundrobin"], (Strategy.range, Strategy.roundrobin), False),
        (["cooperative-sticky"], (Strategy.cooperative_sticky,), True),
    ],
)
def test_a_strategy_may_stand_alone_or_in_a_list(
    chosen: Any, strategies: tuple[Strategy, ...], incremental: bool
) -> None:
    membership = settings(assignment_strategy=chosen).membership("name")
    assert (membership.assignment_strategy, membership.is_incremental) == (strategies, incremental)
    assert config(membership)["partition.assignment.strategy"] == ",".join(strategies)


def test_a_static_member_bears_the_name_it_is_given() -> None:
    membership = settings(static_membership=True).membership("flights-0")
    assert config(membership)["group.instance.id"] == "flights-0"


def test_a_name_that_all_members_would_share_is_not_taken_from_the_connection() -> None:
    given = {"group.instance.id": "one", "group.protocol": "consumer", "session.timeout.ms": "1"}
    found = config(Membership(), **given)
    assert "group.instance.id" not in found
    assert (found["group.protocol"], found["session.timeout.ms"]) == ("classic", 10_000)


def test_the_session_is_bounded_in_seconds_and_has_five_heartbeats() -> None:
    found = config(settings(session_timeout_seconds=45).membership("name"))
    assert (found["session.timeout.ms"], found["heartbeat.interval.ms"]) == (45_000, 9_000)


def test_the_poll_interval_is_never_shorter_than_the_session() -> None:
    """librdkafka would refuse it."""
    found = config(settings(session_timeout_seconds=600).membership("name"))
    assert found["max.poll.interval.ms"] == 600_000


def test_the_protocol_consumer_is_given_nothing_of_a_classic_group() -> None:
    """librdkafka would refuse it."""
    membership = settings(group_protocol="consumer").membership("name")
    found = config(membership, **{"heartbeat.interval.ms": "9"})
    assert found["group.protocol"] == "consumer"
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "group.instance.id"} & found.keys()
    assert "partition.assignment.strategy" not in found
    assert membership.is_incremental


def test_a_group_may_have_any_name_that_can_be_seen() -> None:
    assert settings(group="two words: ü").group == "two words: ü"
    assert settings(group="x" * 244, static_membership=True).static_membership


@pytest.mark.parametrize(
    ("client_id", "number"),
    [
        ("tidemark-flights-17", 17),
        ("tidemark-flights-", None),
        ("tidemark-flights_2-17", None),
        ("tidemark-flights-17-x", None),
        ("console-consumer", None),
    ],
)
def test_a_member_of_the_region_is_told_from_a_foreign_consumer(
    client_id: str, number: int | None
) -> None:
    """S4."""
    assert Holder(client_id, "/h", ()).number("flights") == number
