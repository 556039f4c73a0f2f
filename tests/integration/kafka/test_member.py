"""Membership: takes part in the group, fetches nothing, and tells what it owns."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.support.produce import numbered, produce
from tests.support.waiting import outlast, until

from tidemark.kafka import member as member_module
from tidemark.kafka.config import member_settings
from tidemark.kafka.errors import MemberEnded
from tidemark.kafka.group import Group
from tidemark.kafka.member import Member
from tidemark.model.membership import Membership
from tidemark.model.offsets import TopicPartition


def both(name: str) -> set[TopicPartition]:
    return {TopicPartition(name, 0), TopicPartition(name, 1)}


def test_a_member_commits_nothing_though_its_connection_says_so(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """Offsets come from the ledger alone."""
    name = topic(partitions=2)
    config = {
        "bootstrap.servers": kafka,
        "enable.auto.commit": "true",
        "auto.commit.interval.ms": "50",
        "auto.offset.reset": "earliest",
    }
    produce(kafka, name, numbered(5))
    with Member(config, group, [name], "m") as member:
        until(member.assigned)
        outlast(0.5)  # several commits, which must not happen
    assert Group({"bootstrap.servers": kafka}, group).committed(both(name)) == {}


def test_the_members_own_settings_win(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the connection says: what exactness rests on is not the user's."""
    asked: list[dict[str, Any]] = []

    def refuse(config: dict[str, Any]) -> None:
        asked.append(config)
        raise RuntimeError("the test has seen enough")

    monkeypatch.setattr(member_module, "Consumer", refuse)
    own = member_settings(Membership())
    theirs = dict.fromkeys(own, "theirs") | {"group.id": "theirs"}
    with Member(theirs, group, ["t"], "m") as member:
        member.wait(120)
    [config] = asked
    assert {key: config[key] for key in own} == own
    assert config["group.id"] == group


def test_a_consumer_that_was_there_keeps_its_partitions_until_it_leaves(
    kafka: str, topic: Callable[..., str], group: str
) -> None:
    """H12: a foreign consumer in the group is named by its client id."""
    name = topic(partitions=1)
    foreign = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": group,
            "client.id": "console",
            "session.timeout.ms": 6000,
        }
    )
    foreign.subscribe([name])
    until(lambda: foreign.poll(0.1) or foreign.assignment())
    [holder] = Group({"bootstrap.servers": kafka}, group).holders()
    assert holder.client_id == "console"
    foreign.close()


@pytest.mark.long
def test_a_member_whose_settings_are_refused_says_so(group: str) -> None:
    config = {"bootstrap.servers": "localhost:1", "security.protocol": "nonsense"}
    with Member(config, group, ["t"], "m") as member:
        member.wait(120)
        with pytest.raises(MemberEnded):
            member.assigned()
