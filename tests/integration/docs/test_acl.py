"""The ACLs of docs/operating.md are enough for a run, on a broker that knows ACLs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from tests.support.documents import ROOT, blocks
from tests.support.region import kafka_connection, postgres_connection
from tests.support.sent import sent_to
from tests.support.topics import create_topic
from tests.support.world import World

from tidemark.errors import Unreachable
from tidemark.kafka.errors import KafkaForbids
from tidemark.local.broker import Broker
from tidemark.local.stack import LocalStack
from tidemark.settings.connections import Connection

pytestmark = pytest.mark.long

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOPIC_FORBIDDEN = "TOPIC_AUTHORIZATION_FAILED"
GRANTS = re.findall(
    r"^\$A (.*) --(topic|group|transactional-id) ([\w-]+)$",
    "\n".join(block.text for block in blocks(ROOT / "docs" / "operating.md")),
    re.MULTILINE,
)
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class GuardedBroker(Broker):
    """A broker with a second listener, for a user who may do what ACLs say."""

    @property
    def ports(self) -> tuple[str, ...]:
        return *super().ports, f"{self.name}-guarded"

    @property
    def guarded(self) -> str:
        return f"127.0.0.1:{self._folder.port(f'{self.name}-guarded')}"

    def _write_properties(self) -> Path:
        path = super()._write_properties()
        control = self._folder.port(f"{self.name}-controller")
        guarded = f"GUARDED://{self.guarded}"
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap},{guarded},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},{guarded}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT"
            ),
            "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": f'{LOGIN} user_tidemark="granted";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        with path.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())
        return path


@dataclass
class GuardedWorld(World):
    """A region whose Kafka connection logs in as the user with the ACLs."""

    guarded: str = ""

    @property
    def connections(self) -> dict[str, Connection]:
        kafka = kafka_connection(
            self.guarded,
            **{
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "tidemark",
                "sasl.password": "granted",
            },
        )
        return {
            "tidemark_kafka": kafka,
            "tidemark_warehouse": postgres_connection(self.warehouse),
        }


@pytest.fixture(scope="module")
def broker(stack: LocalStack) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(stack.folder, node=2)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def guarded(
    broker: GuardedBroker, warehouse: dict[str, object], group: str
) -> Iterator[GuardedWorld]:
    name = f"t-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(admin, NewTopic(name, 2, 1))
    world = GuardedWorld(broker.bootstrap, warehouse, name, group, guarded=broker.guarded)
    world.produce(5)
    yield world
    admin.delete_topics([name])[name].exception(30)


def grant(world: GuardedWorld, *without: str) -> None:
    """Create the documented ACLs for the world's names, but those of some resource types."""
    names = {
        "topic": world.topic,
        "group": world.group.group_id,
        "transactional-id": world.group.transactional_id,
    }
    acls = [
        AclBinding(
            RESOURCES[kind],
            names[kind],
            ResourcePatternType.LITERAL,
            "User:tidemark",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for words, kind, _ in GRANTS
        if kind not in without
        for operation in re.findall(r"--operation (\w+)", words)
    ]
    admin = AdminClient({"bootstrap.servers": world.kafka})  # named: its answers die with it
    for future in admin.create_acls(acls).values():
        future.result(30)


def test_the_documented_names_follow_from_the_group() -> None:
    named = {kind: name for _, kind, name in GRANTS}
    assert named == {
        "topic": "flights",
        "group": "flights",
        "transactional-id": "tidemark-flights",
    }


def test_the_acls_are_enough_for_runs_and_resets(guarded: GuardedWorld) -> None:
    grant(guarded)
    assert guarded.run("first", max_records=3).rows == 5
    assert guarded.kafka_offsets() == guarded.ledger_offsets()
    guarded.produce(2, partition=1)
    guarded.reset()
    assert guarded.run("second").rows == 2


def test_the_acls_of_an_output_topic_are_enough(guarded: GuardedWorld) -> None:
    """B9: what was sent is found from the topic as well; without them the error names it."""
    grant(guarded)
    admin = AdminClient({"bootstrap.servers": guarded.kafka})
    sink = create_topic(admin, NewTopic(f"{guarded.topic}-output", 1, 1))
    guarded.settings["output"] = {"topic": sink}
    with pytest.raises(KafkaForbids) as refused:
        guarded.open("refused")
    assert (refused.value.what, refused.value.answer) == (f"topic {sink}", TOPIC_FORBIDDEN)
    for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
        acl = AclBinding(ResourceType.TOPIC, sink, ResourcePatternType.LITERAL, "User:tidemark",
                         "*", operation, AclPermissionType.ALLOW)  # fmt: skip
        admin.create_acls([acl])[acl].result(30)
    guarded.run("first")
    admin.delete_consumer_groups([guarded.region])[guarded.region].result(20)
    guarded.settings["output"]["resume_after"] = 1
    guarded.run("second")
    assert len(sent_to(guarded.kafka, sink)) == 5


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("topic", TOPIC_FORBIDDEN),
        ("transactional-id", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_a_missing_acl_is_named(guarded: GuardedWorld, kind: str, answer: str) -> None:
    grant(guarded, kind)
    with pytest.raises(KafkaForbids) as refused:
        guarded.run()
    assert refused.value.answer == answer


def test_without_the_right_to_the_group_nothing_begins(
    guarded: GuardedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client asks for the offsets again and again: the time-out is what it tells."""
    monkeypatch.setattr("tidemark.kafka.group.SECONDS", 2)
    monkeypatch.setattr("tidemark.kafka.admin.SECONDS", 2)
    grant(guarded, "group")
    with pytest.raises(Unreachable) as refused:
        guarded.run()
    assert f"offsets of group {guarded.group.group_id}" in str(refused.value)
    assert guarded.sql("SELECT count(*) FROM tidemark.runs") == [(0,)]
