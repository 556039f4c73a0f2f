"""The ACLs of the documents are enough, on a broker with ACLs, SASL/SCRAM and TLS."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.support.documents import ROOT, blocks
from tests.support.produce import good, produce
from tests.support.region import kafka_connection, postgres_connection
from tests.support.roles import ROLES, RoleWorld, granted
from tests.support.second_listener import SecondListener
from tests.support.sent import sent_to
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.world import World

from tidemark.admin.run import run
from tidemark.check._logins import login_findings
from tidemark.check.findings import Finding, State
from tidemark.kafka.config import kafka_config
from tidemark.kafka.errors import KafkaAnswersError, KafkaForbids, SpanNotRead
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import Span
from tidemark.model.plan import Bounds
from tidemark.runs.errors import ConnectionUnreachable, TasksReadOtherTopics
from tidemark.runs.region import region_of
from tidemark.settings.connections import Connection
from tidemark.verify.audit import AuditQuestion, audit
from tidemark.verify.report import AuditReport
from tidemark.verify.verify import verify
from tidemark.views.group_health import health_of
from tidemark.views.status import unread
from tidemark_local.stack import LocalStack

pytestmark = pytest.mark.long

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
TOPIC_FORBIDDEN = "TOPIC_AUTHORIZATION_FAILED"
GRANTS = re.findall(
    r"^\$A (.*) --(topic|group|transactional-id) ([\w-]+)$",
    "\n".join(block.text for block in blocks(ROOT / "docs" / "administration.md")),
    re.MULTILINE,
)
SELF_SIGNED = (
    "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
)  # fmt: skip
MECHANISM = "SCRAM-SHA-256"
ROLE_GRANTS = re.findall(
    r"^\$A --allow-principal User:tidemark_(\w+) (.*) --(topic|group|transactional-id) ([\w-]+)$",
    "\n".join(block.text for block in blocks(ROOT / "docs" / "roles.md")),
    re.MULTILINE,
)
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class GuardedBroker(SecondListener):
    """A broker with a second listener, for a user who may do what ACLs say."""

    listener = "guarded"
    protocol = "SASL_SSL"

    @property
    def authority(self) -> Path:
        """Who has signed its certificate: itself."""
        return self._home / "guarded.crt"

    def login(self, user: str) -> dict[str, str]:
        """What the connection of a user says; the password is his name."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": user,
            "ssl.ca.location": str(self.authority),
        }

    def know(self, *users: str) -> None:
        """The users may log in."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = [UserScramCredentialUpsertion(user, scram, user.encode()) for user in users]
        for future in admin.alter_user_scram_credentials(wanted).values():
            future.result(120)

    def _certificate(self) -> Path:
        if not self.authority.exists():
            key = self.authority.with_suffix(".key")
            subprocess.run(
                [*SELF_SIGNED, "-keyout", key, "-out", self.authority],
                check=True,
                capture_output=True,
            )
            both = key.read_bytes() + self.authority.read_bytes()
            self.authority.with_suffix(".pem").write_bytes(both)
        return self.authority

    def login_settings(self) -> dict[str, object]:
        """How users log in, and that ACLs are asked."""
        return {
            "listener.name.guarded.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.guarded.{MECHANISM.lower()}.sasl.jaas.config": LOGIN,
            "listener.name.guarded.ssl.keystore.type": "PEM",
            "listener.name.guarded.ssl.keystore.location": self._certificate().with_suffix(".pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }


@dataclass
class GuardedWorld(World):
    """A region whose Kafka connection logs in as the user with the ACLs."""

    broker: GuardedBroker | None = None

    @property
    def connections(self) -> dict[str, Connection]:
        assert self.broker is not None
        kafka = kafka_connection(self.broker.guarded, **self.broker.login("tidemark"))
        return {
            "tidemark_kafka": kafka,
            "tidemark_warehouse": postgres_connection(self.warehouse),
        }


@pytest.fixture(scope="module")
def broker(stack: LocalStack) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(stack.folder, node=2)
    broker.start()
    broker.know("tidemark", *(f"tidemark_{role}" for role in ROLES[1:]))
    yield broker
    broker.stop()


@pytest.fixture
def guarded(
    broker: GuardedBroker, warehouse: dict[str, object], group: str
) -> Iterator[GuardedWorld]:
    name = f"t-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(admin, NewTopic(name, 2, 1))
    world = GuardedWorld(broker.bootstrap, warehouse, name, group, broker=broker)
    world.produce(5)
    yield world
    admin.delete_topics([name])[name].exception(120)


def grant(world: World, *without: str) -> None:
    """Create the documented ACLs for the world's names, but those of some resource types."""
    create(world, [("tidemark", *one) for one in GRANTS if one[1] not in without])


def create(world: World, grants: Sequence[tuple[str, ...]]) -> None:
    """Principal, options, resource: the ACLs stand, for the world's names."""
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
            f"User:{user}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for user, words, kind, _ in grants
        for operation in re.findall(r"--operation (\w+)", words)
    ]
    admin = AdminClient({"bootstrap.servers": world.kafka})  # named: its answers die with it
    for future in admin.create_acls(acls).values():
        future.result(120)


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


@pytest.mark.long
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
        admin.create_acls([acl])[acl].result(120)
    guarded.run("first")
    admin.delete_consumer_groups([guarded.region])[guarded.region].result(120)
    guarded.settings["output"]["resume_after"] = 1
    guarded.run("second")
    assert len(sent_to(guarded.kafka, sink)) == 5


def test_to_read_the_topic_is_enough_for_an_audit(guarded: GuardedWorld) -> None:
    """B28: and to describe the other tool's group, if that is asked."""
    guarded.sql(
        "CREATE TABLE public.records AS SELECT 'value ' || n AS value, %s AS kafka_topic,"
        " 0 AS kafka_partition, n AS kafka_offset FROM generate_series(0, 4) AS n",
        [guarded.topic],
    )
    create(guarded, [("tidemark", "--operation Read", "topic", "")])

    def audited(group: str | None) -> AuditReport:
        question = AuditQuestion(group=group)
        return audit(
            guarded.pipeline, guarded.connections, question, spark=lambda: pytest.fail("Spark")
        )

    assert (audited(None).wrong, audited(None).rows) == (0, 5)
    with closing(Consumer({"bootstrap.servers": guarded.kafka, "group.id": guarded.region})) as own:
        own.commit(offsets=[TopicPartition(guarded.topic, 0, 5)], asynchronous=False)
    create(guarded, [("tidemark", "--operation Describe", "group", "")])
    assert audited(guarded.region).wrong == 0


@pytest.mark.long
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


@pytest.mark.long
def test_without_the_right_to_the_group_nothing_begins(
    guarded: GuardedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client asks for the offsets again and again: the time-out is what it tells."""
    monkeypatch.setattr("tidemark.kafka.group.SECONDS", 2)
    monkeypatch.setattr("tidemark.kafka.admin.SECONDS", 2)
    grant(guarded, "group")
    with pytest.raises(ConnectionUnreachable) as unnamed:
        guarded.run()
    answered = unnamed.value.__cause__
    assert isinstance(answered, KafkaAnswersError)
    assert answered.what == f"offsets of group {guarded.group.group_id}"
    assert answered.answer == "_TIMED_OUT"
    assert guarded.sql("SELECT count(*) FROM tidemark.runs") == [(0,)]


@pytest.fixture
def roles(
    broker: GuardedBroker,
    stack: LocalStack,
    role_prefix: str,
    warehouse: dict[str, object],
    group: str,
) -> Iterator[RoleWorld]:
    """A region with the roles of docs/roles.md, in Postgres and in Kafka."""
    name = f"t-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(admin, NewTopic(name, 2, 1))
    world = RoleWorld(broker.bootstrap, warehouse, name, group, prefix=role_prefix)
    granted(world, stack.postgres)
    world.produce(5)
    world.guarded = broker.guarded
    world.logins = {role: broker.login(f"tidemark_{role}") for role in ROLES[1:]}
    create(world, [(f"tidemark_{role}", *one) for role, *one in ROLE_GRANTS])
    yield world
    admin.delete_topics([name])[name].exception(120)


@pytest.mark.long
def test_each_role_can_do_its_work_and_no_more(roles: RoleWorld) -> None:
    """From Kafka to Postgres by TLS and SCRAM, with the grants of docs/roles.md and no others."""
    assert roles.run("first", max_records=3).rows == 5
    roles.reset()
    seen = roles.pipeline.for_readers
    known = {name: one for name, one in roles.connections.items() if name.endswith("_reader")}
    with region_of(seen, known) as region:
        assert (health_of(region).lag, health_of(region).drifting) == (0, 0)
        assert unread(region.ledger, region.broker, region.name, [roles.topic]).offsets == 0
    logins = {
        role: kafka_config(kafka_connection(roles.guarded, **login))
        for role, login in roles.logins.items()
    }
    with pytest.raises(SpanNotRead) as kept_out:
        list(read_spans(logins["reader"], [Span(roles.topic, 0, 0, 5)]))
    assert TOPIC_FORBIDDEN in kept_out.value.cause
    for role in ("executor", "reader"):
        with pytest.raises((KafkaException, TimeoutError)):  # the client asks again and again
            commit(logins[role], roles)
        with pytest.raises(KafkaException) as unfenced:
            fence(logins[role], roles)
        assert unfenced.value.args[0].name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert roles.kafka_offsets() == roles.ledger_offsets()
    for login in logins.values():
        admin = AdminClient(login)  # named: its answers die with it
        with pytest.raises(KafkaException) as kept:
            admin.delete_topics([roles.topic])[roles.topic].result(120)
        assert kept.value.args[0].name() == TOPIC_FORBIDDEN


LACKING = [
    ("executor", ResourceType.TOPIC, AclOperation.READ, "READ"),
    ("executor", ResourceType.TOPIC, AclOperation.ANY, "DESCRIBE and READ"),
    ("reader", ResourceType.TOPIC, AclOperation.ANY, "DESCRIBE"),
    ("reader", ResourceType.GROUP, AclOperation.ANY, "DESCRIBE"),
]


@pytest.mark.long
@pytest.mark.parametrize(("role", "kind", "operation", "needed"), LACKING)
def test_a_check_names_the_acl_that_a_login_lacks(
    roles: RoleWorld, role: str, kind: ResourceType, operation: AclOperation, needed: str
) -> None:
    """S01: and no ACL of another login, where Kafka tells nothing but that it forbids."""
    roles.run("first")
    of_logins = {"executor": "may read and describe 1 topic",
                 "reader": "may describe 1 topic and the group"}  # fmt: skip
    assert {name: found_of(roles, name).fact for name in of_logins} == of_logins
    is_topic = kind is ResourceType.TOPIC
    name = roles.topic if is_topic else roles.group.group_id
    gone = AclBindingFilter(kind, name, ResourcePatternType.LITERAL, f"User:tidemark_{role}", None,
                            operation, AclPermissionType.ALLOW)  # fmt: skip
    admin = AdminClient({"bootstrap.servers": roles.kafka})
    assert admin.delete_acls([gone])[gone].result(120)
    until(lambda: found_of(roles, role).state is not State.ok)
    what = f"topic {name}" if is_topic else f"group {name}"
    found = found_of(roles, role)
    assert found.remedy == f"grant {needed} on {what} to User:tidemark_{role}"
    assert found.state is (State.failed if role == "executor" else State.warned)


@pytest.fixture
def elsewhere(roles: RoleWorld, kafka: str) -> Iterator[Connection]:
    """The tasks' connection leads to another cluster, which has a topic of the same name."""
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topic(admin, NewTopic(roles.topic, 2, 1))
    yield replace(kafka_connection(kafka), conn_id="tidemark_kafka_executor")
    admin.delete_topics([roles.topic])[roles.topic].result(120)


def test_nothing_is_read_of_another_cluster_than_was_planned(
    roles: RoleWorld, kafka: str, elsewhere: Connection
) -> None:
    """G143: as many records are there, at the same offsets; neither a run nor a proof reads one."""
    produce(kafka, roles.topic, [good("of another cluster")] * 5, 0)
    roles.run("first", max_records=3)
    mixed = roles.connections | {elsewhere.conn_id: elsewhere}
    roles.produce(2, start=5)
    with pytest.raises(TasksReadOtherTopics) as refused:
        run(roles.pipeline, mixed, bounds=Bounds(9), executor_of=roles.executor_of)
    assert refused.value.topics == (roles.topic,)
    assert roles.sql("SELECT count(*) FROM public.flights") == [(5,)]
    with pytest.raises(TasksReadOtherTopics):
        verify(roles.pipeline, mixed, executor_of=roles.executor_of)


@pytest.mark.long
def test_a_check_finds_a_login_of_another_cluster(roles: RoleWorld, elsewhere: Connection) -> None:
    """S01: its topic has the same name and as many partitions; its id tells them apart."""
    found = found_of(roles, "executor", tidemark_kafka_executor=elsewhere)
    assert (found.state, found.remedy) == (
        State.failed,
        "let tidemark_kafka_executor name the brokers of the worker's connection",
    )


def found_of(world: RoleWorld, role: str, **changed: Connection) -> Finding:
    """What a check says of the role's login in Kafka; some connections are others."""
    environment = dict(one.to_env() for one in (world.connections | changed).values())
    look_up = partial(Connection.from_env, environ=environment)
    found = {one.check: one for one in login_findings(world.pipeline, look_up)}
    return found[f"Kafka login of {role}s"]


def commit(config: dict[str, str], world: RoleWorld) -> None:
    """The group's offset is another one."""
    offsets = [TopicPartition(world.topic, 0, 1)]
    wanted = ConsumerGroupTopicPartitions(world.group.group_id, offsets)
    for future in AdminClient(config).alter_consumer_group_offsets([wanted]).values():
        future.result(3)


def fence(config: dict[str, str], world: RoleWorld) -> None:
    """Who writes the mirror is fenced."""
    Producer(config | {"transactional.id": world.group.transactional_id}).init_transactions(20)
