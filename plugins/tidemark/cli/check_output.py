"""The output topic's part of `tidemark check`."""

from collections.abc import Iterator

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation

from tidemark.cli.findings import Doubtful, Finding, Unknown, Wrong, finding
from tidemark.cli.project import connection
from tidemark.kafka.admin import SECONDS, Admin, request
from tidemark.kafka.config import kafka_config
from tidemark.kafka.sessions import offsets_kept_minutes
from tidemark.settings.pipeline import Pipeline

NEEDED = {AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE}
"""On the output topic, which is read where nothing else says what was sent."""

ADVISED_MINUTES = 7 * 24 * 60
"""Kafka's default of offsets.retention.minutes."""


def output_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether the topic is there and may be written; nothing without an output."""
    if pipeline.sending is None:
        return
    conn_id, topics = pipeline.kafka.connection, pipeline.sent_to
    if rows := topics.rows:
        yield finding(f"output topic {rows}", lambda: _topic(conn_id, rows, "output.topic"))
    if letters := topics.letters:
        key = "dead_letters.topic"
        yield finding(f"topic of dead letters {letters}", lambda: _topic(conn_id, letters, key))
    if pipeline.output and (registry := pipeline.output.registry):
        yield finding("registry of the output", lambda: _registry(registry))
    yield finding("what was sent", lambda: _kept(conn_id))


def _topic(conn_id: str, name: str, key: str) -> str:
    admin = Admin(kafka_config(connection(conn_id)))
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
    if granted and AclOperation.ALL not in granted and NEEDED - granted:
        missing = ", ".join(sorted(one.name for one in NEEDED - granted))
        raise Wrong(f"{missing} is not granted", f"grant {missing} on topic {name}")
    return f"{len(found.partitions)} partitions; may write, read and describe"


def _registry(conn_id: str) -> str:
    from tidemark.decode.registry import registry_of
    from tidemark.decode.registry_config import registry_config

    return registry_of(registry_config(connection(conn_id))).ping()


def _kept(conn_id: str) -> str:
    minutes = offsets_kept_minutes(kafka_config(connection(conn_id)))
    if minutes is None:
        raise Unknown("no right to read broker settings (ACL DescribeConfigs)")
    told = f"known by the group's offsets, kept for {minutes / 60:.0f} h without members"
    if minutes < ADVISED_MINUTES:
        raise Doubtful(told, "raise offsets.retention.minutes above the longest pause of runs")
    return told
