"""Asking the broker for the facts of a region's topics."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.errors import InvalidSettings, Unreachable
from tidemark.kafka.admin import SECONDS, request
from tidemark.kafka.config import quiet
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.topics import is_pattern, takes_in

BEGINNING = OffsetSpec.earliest()
END = OffsetSpec.latest()


class Broker:
    """Looks at topics and offsets; changes nothing."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._admin = AdminClient(quiet(self._config))

    def topics(self, names_and_patterns: Sequence[str]) -> tuple[str, ...]:
        """The named topics and all that a pattern matches, in order; internal ones never.

        What begins with ^ is a pattern of Python's `re` that a whole name must match. Names are
        taken as they are: whether such a topic exists, its facts tell.

        Raises:
            InvalidSettings: there are patterns alone, and none of them matches a topic.
        """
        patterns = [text for text in names_and_patterns if is_pattern(text)]
        found = set(names_and_patterns) - set(patterns)
        if patterns:
            found |= self._matching(patterns)
        if not found:
            raise InvalidSettings(
                f"no topic matches {', '.join(patterns)}: create one or correct"
                " kafka.topics (the pattern must match the whole name, and the user must be"
                " allowed to describe the topic)"
            )
        return tuple(sorted(found))

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
        cluster = request(
            lambda: self._admin.describe_cluster(request_timeout=SECONDS), "the Kafka cluster"
        )
        return Facts(
            cluster_id=cluster.cluster_id,
            topic_ids={topic: str(found.topic_id) for topic, found in described.items()},
            log_starts=self._offsets(partitions, BEGINNING),
            ends=self._offsets(partitions, END),
        )

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Where the logs end, open transactions included."""
        return self._offsets(partitions, END, IsolationLevel.READ_UNCOMMITTED)

    def gone(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics that Kafka does not have."""
        return frozenset(topic for topic in topics if self._found(topic) is None)

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
        """The first offset at or after a time; the end where there is none yet."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self._offsets(partitions, END)
        return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}

    def _matching(self, patterns: Sequence[str]) -> set[str]:
        listed = request(lambda: self._admin.list_topics(timeout=SECONDS), "the list of topics")
        names = [name for name in listed.topics if takes_in(patterns, name)]
        return {name for name in names if self._is_ours(name)}

    def _is_ours(self, topic: str) -> bool:
        """Whether it is no internal topic, and still there since it was listed."""
        found = self._found(topic)
        return found is not None and not found.is_internal

    def _found(self, topic: str) -> Any:
        return request(lambda: self._ask(topic), f"topic {topic}", none_if="UNKNOWN_TOPIC_OR_PART")

    def _describe(self, topic: str) -> Any:
        description = request(lambda: self._ask(topic), f"topic {topic}")
        if not description.partitions:
            raise Unreachable(f"topic {topic}: the broker listed no partitions; try again")
        return description

    def _ask(self, topic: str) -> "Future[Any]":
        topics = TopicCollection([topic])
        asked = self._admin.describe_topics(topics, request_timeout=SECONDS)
        return asked[topic]  # type: ignore[no-any-return]

    def _offsets(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Offsets:
        """One request a leader; the partitions whose leader moves are asked again."""
        asked = self._list([KafkaPartition(*partition) for partition in partitions], spec, level)
        found: Offsets = {}
        for kafka, future in asked.items():
            partition = TopicPartition(kafka.topic, kafka.partition)
            first = iter([future])

            def ask(kafka: KafkaPartition = kafka, first: Any = first) -> "Future[Any]":
                return next(first, None) or self._list([kafka], spec, level)[kafka]

            found[partition] = request(ask, str(partition)).offset
        return found

    def _list(
        self, partitions: Sequence[KafkaPartition], spec: OffsetSpec, level: IsolationLevel
    ) -> "dict[KafkaPartition, Future[Any]]":
        asked = self._admin.list_offsets(
            dict.fromkeys(partitions, spec),
            isolation_level=level,
            request_timeout=SECONDS,
        )
        return dict(asked)
