"""Asking the broker for the facts of a region's topics."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.errors import InvalidSettings, Refused, Unreachable
from tidemark.facts import Facts
from tidemark.offsets import Offsets, TopicPartition

SECONDS = 15
LIBRDKAFKA_LOG = logging.getLogger("tidemark.librdkafka")
BEGINNING = OffsetSpec.earliest()
END = OffsetSpec.latest()


class Broker:
    """Looks at topics and offsets; changes nothing."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._admin = AdminClient(quiet(self._config))

    def facts(self, topics: Sequence[str]) -> Facts:
        """Cluster id, topic ids, log starts and last stable offsets of all partitions.

        Raises:
            Unreachable: no broker answers.
            InvalidSettings: a topic does not exist.
            Refused: an ACL forbids the look.
        """
        described = {topic: self._describe(topic) for topic in topics}
        partitions = [
            TopicPartition(topic, info.id)
            for topic, description in described.items()
            for info in description.partitions
        ]
        cluster = _wait(self._admin.describe_cluster(request_timeout=SECONDS), "cluster")
        return Facts(
            cluster_id=cluster.cluster_id,
            topic_ids={topic: str(found.topic_id) for topic, found in described.items()},
            log_starts=self._offsets(partitions, BEGINNING),
            ends=self._offsets(partitions, END),
        )

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
        """The first offset at or after a time; the end where there is none yet."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self._offsets(partitions, END)
        return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}

    def _describe(self, topic: str) -> Any:
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=SECONDS)
        description = _wait(asked[topic], f"topic {topic}")
        if not description.partitions:
            raise Unreachable(f"topic {topic}: the broker named no partitions; try again")
        return description

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> Offsets:
        asked = self._admin.list_offsets(
            {KafkaPartition(*partition): spec for partition in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=SECONDS,
        )
        return {
            TopicPartition(kafka.topic, kafka.partition): _wait(future, f"{kafka.topic}").offset
            for kafka, future in asked.items()
        }


def quiet(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with librdkafka's chatter kept out of the log."""
    return {**config, "log_level": 3, "logger": LIBRDKAFKA_LOG}


def translated(error: KafkaException, what: str) -> Exception:
    """A Kafka error by its code, in our words; the cause is kept by the caller."""
    fault = error.args[0]
    name = fault.name()
    if name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
        return InvalidSettings(f"{what} does not exist; create it or correct kafka.topics")
    if name.endswith("AUTHORIZATION_FAILED"):
        return Refused(
            f"{what}: Kafka answers {name}; grant READ and DESCRIBE on the topics, READ on the"
            " group, WRITE and DESCRIBE on the transactional id (docs/configuration.md)"
        )
    return Unreachable(f"{what}: Kafka answers {name}: {fault.str()}; check the Kafka connection")


def _wait(future: "Future[Any]", what: str) -> Any:
    try:
        return future.result(timeout=SECONDS + 5)
    except KafkaException as error:
        raise translated(error, what) from error
    except TimeoutError as error:
        raise Unreachable(f"{what}: no broker answered in {SECONDS} s") from error
