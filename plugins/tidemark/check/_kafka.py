"""What a check says of Kafka, the output topic and what crosses networks in plaintext."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation

from tidemark.check._connections import ConnectionOf
from tidemark.check.findings import Doubtful, Finding, State, Unknown, Wrong, finding
from tidemark.decode.registry import registry_config, registry_of
from tidemark.errors import InvalidSettings
from tidemark.kafka.admin import (
    BOUNDS,
    SECONDS,
    Admin,
    offsets_kept_minutes,
    request,
    session_bounds,
)
from tidemark.kafka.config import kafka_config
from tidemark.kafka.description import DEAD, describe_group
from tidemark.kafka.facts import Broker
from tidemark.kafka.retention import record_limits
from tidemark.model.facts import is_pattern
from tidemark.model.membership import GroupProtocol
from tidemark.model.plain import amount
from tidemark.postgres.parameters import postgres_parameters
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline

NEEDED_TO_READ = {AclOperation.READ, AclOperation.DESCRIBE}
"""On each topic and on the group."""


def kafka_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """The connection, the brokers, each topic, the group, and the bounds of its sessions."""
    conn_id = pipeline.kafka.connection
    known = finding("Kafka connection", lambda: _known(connection_of(conn_id)))
    yield known
    if known.state is not State.ok:
        return
    look = _Cluster.at(pipeline, connection_of(conn_id))
    reachable = finding("Kafka brokers", look.brokers)
    yield reachable
    if reachable.state is not State.ok:
        return
    topics: list[str] = []
    matched = finding("topics", lambda: look.topics(topics))
    if matched.state is not State.ok or look.has_patterns:
        yield matched
    for topic in topics:
        yield finding(f"topic {topic}", lambda topic=topic: look.topic(topic))  # type: ignore[misc]
    yield finding(f"group {pipeline.group}", look.group)
    yield finding(f"transactional id {look.transactional_id}", look.mirror)
    yield finding("group session time-out", look.session)


def _known(found: Connection) -> str:
    config = kafka_config(found)
    return f"{found.conn_id}: {config['bootstrap.servers']}"


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Looks at one cluster, each of which returns its fact."""

    pipeline: Pipeline
    config: dict[str, str]
    admin: Admin

    @classmethod
    def at(cls, pipeline: Pipeline, found: Connection) -> "_Cluster":
        config = kafka_config(found)
        return cls(pipeline, config, Admin(config))

    @property
    def transactional_id(self) -> str:
        return f"tidemark-{self.pipeline.group}"

    def brokers(self) -> str:
        cluster = self._cluster()
        return f"cluster {cluster.cluster_id}, {amount(len(cluster.nodes), 'broker')}"

    @property
    def has_patterns(self) -> bool:
        return any(map(is_pattern, self.pipeline.kafka.topics))

    def topics(self, found: list[str]) -> str:
        found += Broker(self.config).topics(self.pipeline.kafka.topics)
        return f"{', '.join(found)} by {', '.join(self.pipeline.kafka.topics)}"

    def topic(self, topic: str) -> str:
        what = f"topic {topic}"
        found = request(self.admin, lambda: self._describe_topic(topic), what)
        _refuse_missing(what, found.authorized_operations)
        facts = Broker(self.config).facts([topic])
        held = sum(facts.ends.values()) - sum(facts.log_starts.values())
        partitions = amount(len(found.partitions), "partition")
        return f"{partitions}, {amount(held, 'offset')} held; may read and describe"

    def group(self) -> str:
        what = f"group {self.pipeline.group}"
        found = describe_group(self.config, self.pipeline.group)
        if found == DEAD:
            raise Unknown("does not exist yet, so its ACLs can't be checked")
        _refuse_missing(what, [AclOperation[name] for name in found.granted])
        return f"{amount(len(found.holders), 'member')} now; may read and describe"

    def mirror(self) -> str:
        # Only init_transactions would tell, and that fences the mirror writer of a live run.
        raise Unknown("its ACLs WRITE and DESCRIBE can't be checked without fencing a live run")

    def session(self) -> str:
        if self.pipeline.kafka.group_protocol is GroupProtocol.consumer:
            return "the broker sets it for the group_protocol consumer"
        bounds = session_bounds(self.config)
        if bounds is None:
            raise Unknown("no right to read broker settings (ACL DescribeConfigs)")
        low, high = bounds
        asked = self.pipeline.kafka.session_timeout_seconds * 1000
        if not low <= asked <= high:
            raise Wrong(
                f"members ask for {asked} ms, the broker allows {low} to {high}",
                f"set kafka.session_timeout_seconds within it, or {BOUNDS[0]} and {BOUNDS[1]}",
            )
        return f"{asked} ms is between {low} and {high}"

    def _cluster(self) -> Any:
        return request(
            self.admin,
            lambda: self.admin.describe_cluster(request_timeout=SECONDS),
            "the Kafka cluster",
        )

    def _describe_topic(self, topic: str) -> Any:
        return self.admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=SECONDS
        )[topic]


def _refuse_missing(what: str, granted: list[AclOperation] | None) -> None:
    """Brokers without an authorizer grant everything; old ones say nothing."""
    if not granted or AclOperation.ALL in granted:
        return
    missing = ", ".join(sorted(one.name for one in NEEDED_TO_READ - {*granted}))
    if missing:
        raise Wrong(f"{missing} is not granted", f"grant {missing} on {what}")


NEEDED_TO_WRITE = {AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE}
"""On the output topic, which is read where nothing else says what was sent."""

DEAD_LETTER_BYTES = 64 << 10
"""A dead letter is its record, whole, with headers that say why; these have no more, as a rule."""

ADVISED_MINUTES = 7 * 24 * 60
"""Kafka's default of offsets.retention.minutes."""


def output_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """Whether the topic is there and may be written; nothing without an output."""
    if pipeline.sending is None:
        return

    def kafka() -> dict[str, str]:
        return kafka_config(connection_of(pipeline.kafka.connection))

    topics, read = pipeline.sent_to, pipeline.kafka.topics
    if rows := topics.rows:
        yield finding(f"output topic {rows}", lambda: _topic(kafka(), rows, "output.topic", read))
    if dead_letters := topics.dead_letters:
        key, what = "dead_letters.topic", f"topic of dead letters {dead_letters}"
        yield finding(what, lambda: _topic(kafka(), dead_letters, key, read, DEAD_LETTER_BYTES))
    if pipeline.output and (registry := pipeline.output.registry):
        yield finding("registry of the output", lambda: _registry(connection_of(registry)))
    yield finding("what was sent", lambda: _kept(kafka()))


def _topic(config: dict[str, str], name: str, key: str, read: Sequence[str], more: int = 0) -> str:
    admin = Admin(config)
    found = request(
        admin,
        lambda: admin.describe_topics(
            TopicCollection([name]),
            include_authorized_operations=True,
            request_timeout=SECONDS,
        )[name],
        f"topic {name}",
        none_if="UNKNOWN_TOPIC_OR_PART",
    )
    if found is None:
        raise Wrong("does not exist", f"create it, or correct {key}")
    granted = {*(found.authorized_operations or ())}
    if granted and AclOperation.ALL not in granted and NEEDED_TO_WRITE - granted:
        missing = ", ".join(sorted(one.name for one in NEEDED_TO_WRITE - granted))
        raise Wrong(f"{missing} is not granted", f"grant {missing} on topic {name}")
    _doubt_limit(config, name, read, more)
    return f"{amount(len(found.partitions), 'partition')}; may write, read and describe"


def _doubt_limit(config: dict[str, str], name: str, read: Sequence[str], more: int) -> None:
    """A record that Kafka has taken in a topic that is read should fit where it is sent."""
    inputs = Broker(config).topics(read)
    limits = record_limits(config, [name, *inputs])
    largest = max((limits[topic] for topic in inputs if topic in limits), default=0)
    if limits.get(name, largest + more) < largest + more:
        raise Doubtful(
            f"takes records of {limits[name]:,} bytes, and the topics that are read of"
            f" {largest:,}: one that does not fit stops the region",
            f"raise max.message.bytes of topic {name} to {largest + more} at least",
        )


def _registry(found: Connection) -> str:
    return registry_of(registry_config(found)).ping()


def _kept(config: dict[str, str]) -> str:
    minutes = offsets_kept_minutes(config)
    if minutes is None:
        raise Unknown("no right to read broker settings (ACL DescribeConfigs)")
    told = f"known by the group's offsets, kept for {minutes / 60:.0f} h without members"
    if minutes < ADVISED_MINUTES:
        raise Doubtful(told, "raise offsets.retention.minutes above the longest pause of runs")
    return told


UNVERIFIED = {
    "enable.ssl.certificate.verification": "false",
    "ssl.endpoint.identification.algorithm": "none",
}


def encryption_findings(pipeline: Pipeline, connection_of: ConnectionOf) -> Iterator[Finding]:
    """Of each connection whether it is encrypted, to a server whose certificate is verified."""
    logins = pipeline.executors, pipeline.readers
    kafka = {pipeline.kafka.connection, *(one.kafka for one in logins)} - {None}
    postgres = {pipeline.warehouse, *(one.warehouse for one in logins)} - {None}
    looks = {**dict.fromkeys(kafka, of_kafka), **dict.fromkeys(postgres, of_postgres)}
    for conn_id in sorted({*pipeline.connections, *pipeline.for_readers.connections}):
        look = looks.get(conn_id, of_registry)
        yield finding(f"encryption of {conn_id}", partial(_checked, connection_of, conn_id, look))


def _checked(connection_of: ConnectionOf, conn_id: str, look: Callable[[Connection], str]) -> str:
    try:
        return look(connection_of(conn_id))
    except InvalidSettings as error:  # told where the connection itself is checked
        raise Unknown("the connection is not known") from error


def of_kafka(found: Connection) -> str:
    """Whether brokers off this machine are asked by TLS."""
    config = kafka_config(found)
    brokers = config["bootstrap.servers"].split(",")
    if _on_this_machine(one.strip().rpartition(":")[0] for one in brokers):
        return "the brokers are on this machine"
    protocol = config.get("security.protocol", "plaintext").lower()
    if not protocol.endswith("ssl"):
        raise Doubtful(
            f"{protocol}: others on the network can read and change records",
            "set security.protocol to ssl or sasl_ssl",
        )
    if off := [key for key, value in UNVERIFIED.items() if config.get(key, "").lower() == value]:
        raise Doubtful(
            f"{protocol}, but {' and '.join(off)} let any server pass for the broker",
            "remove it from the connection's extra, and name the authority in ssl.ca.location",
        )
    return protocol


def of_postgres(found: Connection) -> str:
    """Whether a server off this machine is asked by TLS, and proves its name."""
    parameters = postgres_parameters(found)
    hosts = str(parameters["host"]).split(",")
    if _on_this_machine(hosts):
        return "the server is on this machine"
    mode = str(parameters.get("sslmode", "prefer"))
    if mode != "verify-full":
        raise Doubtful(
            f"sslmode {mode}: another server could pass for the warehouse",
            "set sslmode=verify-full, and sslrootcert, in the connection's extra",
        )
    return f"sslmode {mode}"


def of_registry(found: Connection) -> str:
    """Whether a registry off this machine is asked by https."""
    address = urlsplit(str(registry_config(found)["url"]))
    if _on_this_machine([address.hostname or ""]):
        return "the registry is on this machine"
    if address.scheme != "https":
        raise Doubtful(
            "http: others on the network can read its login and change schemas",
            "set the connection's schema to https",
        )
    return address.scheme


def _on_this_machine(hosts: Iterable[str]) -> bool:
    return all(map(_is_local, hosts))


def _is_local(host: str) -> bool:
    """A loopback address, its name, or a socket's folder."""
    if host == "localhost" or host.startswith("/"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
