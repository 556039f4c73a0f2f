"""Asking the broker for the facts of a region's topics.

And for two that need more than one question: since when records wait, and whether logs were
rewritten below what was read (KIP-320). For the time Kafka is asked for the first record at or
after one, again and again, for all partitions at once. A consumer would fetch whole record batches
at each look, and one that is corrupt can end its process (see locate.py): just then the numbers are
needed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from tidemark.deadline import Deadline
from tidemark.kafka.admin import AWAY_SECONDS, SECONDS, Admin, request, request_each
from tidemark.kafka.config import reader_config
from tidemark.kafka.errors import BrokersSilent, NoTopicMatches, PartitionsUnlisted
from tidemark.model.facts import Facts, is_pattern, takes_in
from tidemark.model.offsets import LogPosition, Offsets, TopicPartition, in_ranges
from tidemark.tokens.callbacks import with_oauth

BEGINNING = OffsetSpec.earliest()
END = OffsetSpec.latest()


class Broker:
    """Looks at topics and offsets; changes nothing."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    @cached_property
    def _admin(self) -> Admin:
        """Made when it is first asked: without a token nothing is hidden but Kafka."""
        return Admin(self._config)

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
        return frozenset(
            topic for topic, found in self._descriptions(topics).items() if found is None
        )

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Offsets:
        """The first offset at or after a time; the end where there is none yet."""
        ends = self._offsets(partitions, END)  # first: a record that comes in between is behind it
        found = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms))
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
        found = self._descriptions(name for name in listed.topics if takes_in(patterns, name))
        return {name for name, topic in found.items() if topic and not topic.is_internal}

    def _listed(self) -> Any:
        try:
            return self._admin.list_topics(timeout=AWAY_SECONDS)
        except KafkaException:
            if self._admin.complaint(of_all=True):
                raise
        return self._admin.list_topics(timeout=SECONDS)

    def _described(self, topics: Iterable[str]) -> dict[str, Any]:
        descriptions = self._descriptions(topics, none_if=())
        for topic, description in descriptions.items():
            if not description.partitions:
                raise PartitionsUnlisted(topic=topic)
        return descriptions

    def _descriptions(
        self, topics: Iterable[str], none_if: Collection[str] = ("UNKNOWN_TOPIC_OR_PART",)
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

    def _cluster(self) -> dict[str, Future[Any]]:
        return {"the Kafka cluster": self._admin.describe_cluster(request_timeout=SECONDS)}

    def _ask(self, topics: list[str]) -> dict[str, Future[Any]]:
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
    ) -> dict[TopicPartition, Future[Any]]:
        """Ask for offsets, by one request a leader; `_heard` takes the answers."""
        asked = self._admin.list_offsets(
            {KafkaPartition(*partition): spec for partition in partitions},
            isolation_level=level,
            request_timeout=SECONDS,
        )
        return {TopicPartition(one.topic, one.partition): answer for one, answer in asked.items()}

    def _heard(
        self,
        asked: dict[TopicPartition, Future[Any]],
        spec: OffsetSpec,
        level: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Offsets:
        """The offsets asked for; the partitions whose leader moves are asked again."""
        found = request_each(self._admin, asked, lambda moving: self._list(moving, spec, level))
        return {partition: answer.offset for partition, answer in found.items()}


Found = tuple[int, int]
"""Offset and time (ms) of the first record at or after a time; offset -1 if there is none."""

FirstSince = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]]

FIRST_STEP_MS = 1000
WIDER = 4
"""Each look goes back this many times as far, until it leads to a record that was read."""


def oldest_unread(
    first_since: FirstSince, offsets: Offsets, now_ms: int, seconds: float
) -> dict[TopicPartition, int]:
    """The time (ms) of the first record at or after each offset; none where it is not known.

    It is that of the first one that is newer than all before it. No look begins after so many
    seconds: then it may be that of a later record.
    """
    deadline = Deadline(seconds)
    searches = {where: _Search(offset, now_ms) for where, offset in offsets.items()}
    while (asked := _asked(searches)) and not deadline.is_past:
        for where, found in first_since(asked).items():
            searches[where].hear(*found)
    return {where: one.time for where, one in searches.items() if one.time is not None}


def _asked(searches: "Mapping[TopicPartition, _Search]") -> dict[TopicPartition, int]:
    return {where: at for where, one in searches.items() if (at := one.next) is not None}


class _Search:
    """Between a time that leads to a read record and one that leads to an unread one."""

    def __init__(self, offset: int, now_ms: int) -> None:
        self.time: int | None = None
        """Of the first unread record, as far as it is known."""
        self.next: int | None = now_ms
        """The time to ask for; None: the search is over."""
        self._offset = offset
        self._now = now_ms
        self._read, self._read_offset = -1, -1
        """The newest record that is known to be read: its time and offset; -1: none is."""
        self._unread, self._unread_offset = now_ms, -1
        """The earliest time that leads to an unread record, and to which; -1: to none."""
        self._looks = 0

    def hear(self, offset: int, time_ms: int) -> None:
        """Take Kafka's answer for the time that was asked for: an offset and its record's time."""
        asked = self.next or 0
        if 0 <= offset < self._offset:
            self._read, self._read_offset = max(asked, time_ms), offset
        else:
            self._unread, self._unread_offset = asked, offset
            self.time = time_ms if offset >= 0 else None
        is_over = offset == self._offset or self._unread - self._read <= 1
        self.next = None if is_over else self._between()
        # A record that was read may bear a time to come: then no time leads to the unread ones.
        # Nor does any if no record has one.
        if is_over and self.time is None and 0 <= self._read < self._now:
            self.time = self._unread

    def _between(self) -> int:
        """A time to ask for: further back; then in turns by the offsets, next, and in the middle.

        By the offsets a steady stream is searched in a few looks, next to a record that was read a
        gap is found, and the middle bounds their number.
        """
        if self._read_offset < 0:
            age = max(FIRST_STEP_MS, self._now - self._unread)
            return max(0, self._now - WIDER * age)
        self._looks += 1
        between = self._unread - self._read
        match self._looks % 3:
            case 1 if self._unread_offset > self._offset:
                parts = self._unread_offset - self._read_offset
                step = between * (self._offset - self._read_offset) // parts
            case 2:
                step = 1
            case _:
                step = between // 2
        return self._read + min(max(step, 1), between - 1)


LEADERS_SECONDS = 30.0
"""How long the leaders of all partitions may take to answer."""

_REWRITTEN = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_LITTLE = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1}


def rewritten(
    config: Mapping[str, Any], positions: Mapping[TopicPartition, LogPosition]
) -> frozenset[TopicPartition]:
    """The partitions whose log does not lead to the position any more.

    A record or the end of the partition proves that it does: the client validates the position
    before it fetches from there. Positions outside the log are not to be asked for.

    Raises:
        Unreachable: some leader gave no answer.
    """
    consumer = Consumer(with_oauth(reader_config(config) | _LITTLE))
    waiting, found = dict(positions), set()
    deadline = Deadline(LEADERS_SECONDS)
    try:
        consumer.assign([KafkaPartition(*tp, at, "", epoch) for tp, (at, epoch) in waiting.items()])
        while waiting:
            if deadline.is_past:
                raise BrokersSilent(what=in_ranges(waiting), seconds=LEADERS_SECONDS)
            event = consumer.poll(0.5)
            if event is None or event.topic() is None:
                continue
            tp, error = TopicPartition(event.topic(), event.partition()), event.error()
            if error and error.code() in _REWRITTEN:
                found.add(tp)
            if not error or error.code() in {*_REWRITTEN, KafkaError._PARTITION_EOF}:
                waiting.pop(tp, None)
                consumer.incremental_unassign([KafkaPartition(*tp)])
    finally:
        consumer.close()
    return frozenset(found)
