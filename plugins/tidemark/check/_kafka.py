"""What a check says of Kafka and the output topic."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation

from tidemark.check._compaction import compaction_findings
from tidemark.check.findings import Doubtful, Finding, State, Unknown, Wrong, finding, found_by
from tidemark.decode.registry import registry_config, registry_of
from tidemark.errors import TidemarkError
from tidemark.kafka.admin import (
    BOUNDS,
    SECONDS,
    Admin,
    offsets_kept_minutes,
    request,
    request_each,
    session_bounds,
)
from tidemark.kafka.config import kafka_config
from tidemark.kafka.description import DEAD, describe_group, transactional_id_of
from tidemark.kafka.facts import Broker
from tidemark.kafka.retention import Retention, record_limits, retentions
from tidemark.model.facts import is_pattern
from tidemark.model.membership import GroupProtocol
from tidemark.model.plain import amount
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import ConnectionOf
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
    matched, topics = found_by("topics", look.topics)
    if matched.state is not State.ok or look.has_patterns:
        yield matched
    settings = _settings(look, topics or ())
    for topic in topics or ():
        yield finding(f"topic {topic}", lambda topic=topic: look.topic(topic))  # type: ignore[misc]
        yield from compaction_findings(pipeline, topic, settings.get(topic, Retention()))
    yield finding(f"group {pipeline.group}", look.group)
    yield finding(f"transactional id {transactional_id_of(pipeline.group)}", look.mirror)
    yield finding("group session time-out", look.session)


def _settings(look: "_Cluster", topics: Sequence[str]) -> dict[str, Retention]:
    try:
        return retentions(look.config, topics)
    except TidemarkError:  # what is wrong with a topic its own finding tells
        return {}


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

    def brokers(self) -> str:
        cluster = self._cluster()
        return f"cluster {cluster.cluster_id}, {amount(len(cluster.nodes), 'broker')}"

    @property
    def has_patterns(self) -> bool:
        return any(map(is_pattern, self.pipeline.kafka.topics))

    def topics(self) -> tuple[str, tuple[str, ...]]:
        found = Broker(self.config).topics(self.pipeline.kafka.topics)
        return f"{', '.join(found)} by {', '.join(self.pipeline.kafka.topics)}", found

    def topic(self, topic: str) -> str:
        [found] = described(self.admin, [topic]).values()
        refuse_missing(f"topic {topic}", found.authorized_operations)
        facts = Broker(self.config).facts([topic])
        held = sum(facts.ends.values()) - sum(facts.log_starts.values())
        partitions = amount(len(found.partitions), "partition")
        return f"{partitions}, {amount(held, 'offset')} held; may read and describe"

    def group(self) -> str:
        what = f"group {self.pipeline.group}"
        found = describe_group(self.config, self.pipeline.group)
        if found == DEAD:
            raise Unknown("does not exist yet, so its ACLs can't be checked")
        refuse_missing(what, [AclOperation[name] for name in found.granted])
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


def described(admin: Admin, topics: list[str], none_if: Collection[str] = ()) -> dict[str, Any]:
    """The topics with what the login may do with each; see `request_each`."""

    def ask(some: list[str]) -> Any:
        return admin.describe_topics(
            TopicCollection(some), include_authorized_operations=True, request_timeout=SECONDS
        )

    return request_each(admin, ask(topics), ask, lambda topic: f"topic {topic}", none_if)


def refuse_missing(
    what: str,
    granted: Collection[AclOperation] | None,
    needed: Collection[AclOperation] = NEEDED_TO_READ,
    principal: str = "the connection's principal",
) -> None:
    """Brokers without an authorizer grant everything; old ones say nothing."""
    if not granted or AclOperation.ALL in granted:
        return
    missing = ", ".join(sorted(one.name for one in {*needed} - {*granted}))
    if missing:
        fact = f"{missing} on {what} is not granted"
        raise Wrong(fact, f"grant {missing} on {what} to {principal}")


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
    [found] = described(admin, [name], none_if={"UNKNOWN_TOPIC_OR_PART"}).values()
    if found is None:
        raise Wrong("does not exist", f"create it, or correct {key}")
    refuse_missing(f"topic {name}", found.authorized_operations, NEEDED_TO_WRITE)
    _doubt_limit(config, name, read, more)
    return f"{amount(len(found.partitions), 'partition')}; may write, read and describe"


def _doubt_limit(config: dict[str, str], name: str, read: Sequence[str], more: int) -> None:
    """A record that Kafka has taken in a topic that is read should fit where it is sent."""
    inputs = Broker(config).topics(read)
    limits = record_limits(config, [name, *inputs])
    largest = max((limits[topic] for topic in inputs if topic in limits), default=0)
    if limits.get(name, largest + more) < largest + more:
        raise Doubtful(
            f"accepts records of at most {limits[name]:,} bytes, and the input topics accept"
            f" {largest:,}: a larger record can't be sent, and it stops the region",
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
