"""Kafka's part of `tidemark check`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation

from tidemark.cli.findings import Finding, State, Unknown, Wrong, finding
from tidemark.cli.project import connection
from tidemark.kafka.admin import SECONDS, Admin, request
from tidemark.kafka.config import kafka_config
from tidemark.kafka.description import describe_group
from tidemark.kafka.facts import Broker
from tidemark.kafka.holders import DEAD
from tidemark.kafka.sessions import BOUNDS, session_bounds
from tidemark.model.amount import amount
from tidemark.model.membership import GroupProtocol
from tidemark.model.topics import is_pattern
from tidemark.settings.pipeline import Pipeline

NEEDED = {AclOperation.READ, AclOperation.DESCRIBE}
"""On each topic and on the group."""


def kafka_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """The connection, the brokers, each topic, the group, and the bounds of its sessions."""
    conn_id = pipeline.kafka.connection
    known = finding("Kafka connection", lambda: _known(conn_id))
    yield known
    if known.state is not State.ok:
        return
    look = _Look.at(pipeline)
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


def _known(conn_id: str) -> str:
    config = kafka_config(connection(conn_id))
    return f"{conn_id}: {config['bootstrap.servers']}"


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks at one cluster, each of which returns its fact."""

    pipeline: Pipeline
    config: dict[str, str]
    admin: Admin

    @classmethod
    def at(cls, pipeline: Pipeline) -> "_Look":
        config = kafka_config(connection(pipeline.kafka.connection))
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
    missing = ", ".join(sorted(one.name for one in NEEDED - {*granted}))
    if missing:
        raise Wrong(f"{missing} is not granted", f"grant {missing} on {what}")
