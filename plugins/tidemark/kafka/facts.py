"""Asking the broker for the facts of a region's topics."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from tidemark.kafka.admin import AWAY_SECONDS, SECONDS, Admin, request, request_each
from tidemark.kafka.errors import NoTopicMatches, PartitionsUnlisted
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.model.topics import is_pattern, takes_in

BEGINNING = OffsetSpec.earliest()
END = OffsetSpec.latest()


class Broker:
    """Looks at topics and offsets; changes nothing."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._admin = Admin(self._config)

    def topics(self, names_and_patterns: Sequence[str]) -> tuple[str, ...]:
        """The named topics and all that a pattern matches, in order; internal ones never.

        What begins with ^ is a pattern of Python's `re` that a whole name must match. Names are
        taken as they are: whether such a topic exists, its facts tell.

        Raises:
            InvalidSettings: there are patterns alone, and none of them matches a topic.
        """
        patterns = tuple(text for text in names_and_patterns if is_pattern(text))
        found = set(names_and_patterns) - set(patterns)
        if patterns:
            found |= self._matching(patterns)
        if not found:
            raise NoTopicMatches(patterns=patterns)
        return tuple(sorted(found))

    def facts(self, topics: Sequence[str]) -> Facts:
        """Cluster id, topic ids, log starts and last stable offsets of all partitions.

        Raises:
            Unreachable: no broker answers.
            InvalidSettings: a topic does not exist.
            Refused: an ACL forbids the look.
        """
        asked = self._cluster()
        described = self._described(topics)
        partitions = [
            TopicPartition(topic, info.id)
            for topic, description in described.items()
            for info in description.partitions
        ]
        starts, ends = self._list(partitions, BEGINNING), self._list(partitions, END)
        [cluster] = request_each(self._admin, asked, lambda _: self._cluster()).values()
        return Facts(
            cluster_id=cluster.cluster_id,
            topic_ids={topic: str(found.topic_id) for topic, found in described.items()},
            log_starts=self._heard(starts, BEGINNING),
            ends=self._heard(ends, END),
        )

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The topics' ids alone; raises as `facts` does."""
        return {topic: str(found.topic_id) for topic, found in self._described(topics).items()}

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Where the logs end, open transactions included."""
        return self._offsets(partitions, END, IsolationLevel.READ_UNCOMMITTED)

    def gone(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics that Kafka does not have."""
        return frozenset(topic for topic, found in self._found(topics).items() if found is None)

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
        """The first offset at or after a time; the end where there is none yet."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self._offsets(partitions, END)
        return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}

    def first_since(
        self, times: Mapping[TopicPartition, int], seconds: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and time (ms) of the first record at or after each time; offset -1: there is none.

        Asked once. A partition whose leader does not answer so fast is left out.
        """
        asked = self._admin.list_offsets(
            {KafkaPartition(*where): OffsetSpec.for_timestamp(at) for where, at in times.items()},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=seconds,
        )
        found = {}
        for one, answer in asked.items():
            with suppress(KafkaException, TimeoutError):
                told = answer.result(seconds + 1)
                found[TopicPartition(one.topic, one.partition)] = (told.offset, told.timestamp)
        return found

    def _matching(self, patterns: Sequence[str]) -> set[str]:
        """Internal topics are left out, and those that went since they were listed."""
        listed = request(self._admin, self._listed, "the list of topics")
        found = self._found(name for name in listed.topics if takes_in(patterns, name))
        return {name for name, topic in found.items() if topic and not topic.is_internal}

    def _listed(self) -> Any:
        try:
            return self._admin.list_topics(timeout=AWAY_SECONDS)
        except KafkaException:
            if self._admin.complaint(of_all=True):
                raise
        return self._admin.list_topics(timeout=SECONDS)

    def _described(self, topics: Iterable[str]) -> dict[str, Any]:
        descriptions = self._found(topics, none_if=None)
        for topic, description in descriptions.items():
            if not description.partitions:
                raise PartitionsUnlisted(topic=topic)
        return descriptions

    def _found(
        self, topics: Iterable[str], none_if: str | None = "UNKNOWN_TOPIC_OR_PART"
    ) -> dict[str, Any]:
        """Each topic's description, by one request; None where Kafka does not have it."""
        names = list(dict.fromkeys(topics))
        asked = self._ask(names) if names else {}
        return request_each(self._admin, asked, self._ask, lambda topic: f"topic {topic}", none_if)

    def ping(self, seconds: float) -> None:
        """Whether a broker answers within so many seconds.

        Raises:
            Unreachable: none does.
        """
        request(
            self._admin,
            lambda: self._admin.describe_cluster(request_timeout=seconds),
            "the Kafka cluster",
        )

    def _cluster(self) -> "dict[str, Future[Any]]":
        return {"the Kafka cluster": self._admin.describe_cluster(request_timeout=SECONDS)}

    def _ask(self, topics: list[str]) -> "dict[str, Future[Any]]":
        return dict(self._admin.describe_topics(TopicCollection(topics), request_timeout=SECONDS))

    def _offsets(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Offsets:
        return self._heard(self._list(partitions, spec, level), spec, level)

    def _list(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> "dict[TopicPartition, Future[Any]]":
        """Ask for offsets, by one request a leader; `_heard` takes the answers."""
        asked = self._admin.list_offsets(
            {KafkaPartition(*partition): spec for partition in partitions},
            isolation_level=level,
            request_timeout=SECONDS,
        )
        return {TopicPartition(one.topic, one.partition): answer for one, answer in asked.items()}

    def _heard(
        self,
        asked: "dict[TopicPartition, Future[Any]]",
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Offsets:
        """The offsets asked for; the partitions whose leader moves are asked again."""
        found = request_each(self._admin, asked, lambda moving: self._list(moving, spec, level))
        return {partition: answer.offset for partition, answer in found.items()}
