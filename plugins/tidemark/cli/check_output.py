"""The output topic's part of `tidemark check`."""

from collections.abc import Iterator, Sequence

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation

from tidemark.cli.findings import Doubtful, Finding, Unknown, Wrong, finding
from tidemark.cli.project import connection
from tidemark.kafka.admin import SECONDS, Admin, request
from tidemark.kafka.config import kafka_config
from tidemark.kafka.facts import Broker
from tidemark.kafka.retention import record_limits
from tidemark.kafka.sessions import offsets_kept_minutes
from tidemark.model.amount import amount
from tidemark.settings.pipeline import Pipeline

NEEDED = {AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE}
"""On the output topic, which is read where nothing else says what was sent."""

LETTER_BYTES = 64 << 10
"""A dead letter is its record, whole, with headers that say why; these have no more, as a rule."""

ADVISED_MINUTES = 7 * 24 * 60
"""Kafka's default of offsets.retention.minutes."""


def output_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether the topic is there and may be written; nothing without an output."""
    if pipeline.sending is None:
        return
    conn_id, topics = pipeline.kafka.connection, pipeline.sent_to
    read = pipeline.kafka.topics
    if rows := topics.rows:
        yield finding(f"output topic {rows}", lambda: _topic(conn_id, rows, "output.topic", read))
    if letters := topics.letters:
        key, what = "dead_letters.topic", f"topic of dead letters {letters}"
        yield finding(what, lambda: _topic(conn_id, letters, key, read, LETTER_BYTES))
    if pipeline.output and (registry := pipeline.output.registry):
        yield finding("registry of the output", lambda: _registry(registry))
    yield finding("what was sent", lambda: _kept(conn_id))


def _topic(conn_id: str, name: str, key: str, read: Sequence[str], more: int = 0) -> str:
    config = kafka_config(connection(conn_id))
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
    if granted and AclOperation.ALL not in granted and NEEDED - granted:
        missing = ", ".join(sorted(one.name for one in NEEDED - granted))
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
