"""A reading of spans: one client on all of them, and where each one stands."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from time import monotonic
from typing import Any

from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.kafka.client import Client, client_for
from tidemark.kafka.complaints import Complaints
from tidemark.kafka.config import BATCH_BY_BATCH, fetching, reader_config
from tidemark.kafka.corrupt import Unreadable
from tidemark.kafka.partition_log import PartitionLog
from tidemark.kafka.progress import Progress
from tidemark.model.offsets import TopicPartition

_LIST = 2000
_LIST_BYTES = 16 << 20
"""Of the records that are taken from the client at once: it holds them a second time."""
_FIRST_LIST = 100
"""Records taken at once while their sizes are not known."""
_POLL_SECONDS = 0.5


class Reading:
    """Spans of different partitions, read side by side; one that is at its end is let go."""

    def __init__(
        self,
        config: Mapping[str, Any],
        spans: Sequence[Progress],
        no_progress_seconds: float,
        max_unpacked: int | None = None,
    ) -> None:
        """`max_unpacked` are bytes for a batch that needs more than the client takes."""
        self._complaints = Complaints(config.get("bootstrap.servers"))
        self._config = reader_config({**fetching([one.span for one in spans]), **config})
        self._seconds = no_progress_seconds
        self._max_unpacked = max_unpacked
        self._spans = {one.span.topic_partition: one for one in spans}
        if len(self._spans) < len(spans):
            raise ValueError("two spans of one partition can't be read at once")
        self._open = dict(self._spans)
        is_one_topic = len({where.topic for where in self._open}) == 1
        self._kind = Message.partition if is_one_topic else _partition
        self._client: Client
        self._left = 0
        self._most = _FIRST_LIST
        self._still = 0.0
        """Seconds of waiting in which no span moved: who is busy with some does not wait."""
        self._done: set[TopicPartition] = set()

    def lists(self) -> Iterator[list[Message]]:
        """The records of the spans, in lists of one span each; those of a span in order.

        At the end nothing of any span can come any more.

        Raises:
            Unreadable: what comes next in a span is corrupt; all before it was yielded.
            DataLost: Kafka does not hold a needed offset, or holds another history there.
            Unreachable: a span did not move for `no_progress_seconds`, or the login is refused.
        """
        while self._open:
            with self._assigned():
                while self._open and not self._client.is_poisoned:
                    yield from self._advance()
            for progress in self._open.values():
                if progress.unreadable and not self._has_widened(progress.unreadable):
                    raise progress.unreadable
                progress.unreadable = None

    def _has_widened(self, met: Unreadable) -> bool:
        """Whether the next client takes what this one could not unpack: batch by batch, from there.

        Only once: what does not unpack then is corrupt.
        """
        if not met.is_packed or self._max_unpacked is None:
            return False
        room = {"receive.message.max.bytes": self._max_unpacked}
        self._config = {**self._config, **BATCH_BY_BATCH, **room}
        self._max_unpacked = None
        return True

    @contextmanager
    def _assigned(self) -> Iterator[None]:
        """A client on all spans that are not at their ends."""
        begins = [one.begin() for one in self._open.values()]
        with client_for(self._config, begins, self._complaints.note) as self._client:
            for where, progress in self._open.items():
                progress.log = PartitionLog(self._client.consumer, where)
            self._left = sum(one.left for one in self._open.values())
            yield

    def _advance(self) -> list[list[Message]]:
        """Wait for what comes next; return the records of the spans among it."""
        began, left = monotonic(), self._left
        taken = self._take()
        lists = [self._heed(*part) for part in self._parted(taken).items()]
        if self._left == left:
            self._look()
        if self._left == left and not self._client.is_poisoned:
            self._still += monotonic() - began
            self._refuse_silence()
        self._let_go()
        return [records for records in lists if records]

    def _take(self) -> list[Message]:
        """One record or event as soon as there is one, and with it what else has arrived.

        consume(n) would wait for n records, which spans with gaps need not have.
        """
        taken: list[Message] = self._client.consumer.consume(1, _POLL_SECONDS)
        if taken and self._left > 1 and self._most > 1:
            taken += self._client.consumer.consume(min(self._most, self._left) - 1, 0)
        size = sum(map(len, taken))
        if size:
            self._most = max(1, min(_LIST, _LIST_BYTES * len(taken) // size))
        return taken

    def _parted(self, taken: list[Message]) -> dict[TopicPartition, list[Message]]:
        """The same by partition, each whole: the client's position is behind all of them."""
        parts: dict[TopicPartition, list[Message]] = {}
        for _, run in groupby(taken, self._kind):
            messages = list(run)
            parts.setdefault(_partition(messages[0]), []).extend(messages)
        return parts

    def _heed(self, where: TopicPartition, run: list[Message]) -> list[Message]:
        """The records of a span among what came of its partition, if it is still read."""
        progress = self._open.get(where)
        if progress is None:
            if where not in self._spans:
                self._heed_of_no_span(run)
            return []
        with self._noted(progress):
            return progress.take(run, self._complaints)

    def _heed_of_no_span(self, run: list[Message]) -> None:
        """Events of the client, or of a whole topic: told of one span that is still read."""
        for event in filter(Message.error, run):
            alike = (one for one in self._open.values() if one.span.topic == event.topic())
            progress = next(alike, next(iter(self._open.values())))
            with self._noted(progress):
                found = self._complaints.unreadable(event, progress.log, progress.position)
                progress.unreadable = progress.unreadable or found

    def _look(self) -> None:
        """Nothing came: markers, aborted and compacted records may have been passed."""
        for progress in self._open.values():
            with self._noted(progress):
                progress.look()

    @contextmanager
    def _noted(self, progress: Progress) -> Iterator[None]:
        """What the block does to the span is noted: how far it comes, and what it meets."""
        left = progress.left
        yield
        if progress.left < left:
            self._left -= left - progress.left
            progress.moved_at = self._still
        self._client.is_poisoned |= progress.unreadable is not None
        if progress.left == 0:
            self._done.add(progress.span.topic_partition)
        elif progress.is_to_begin_again:
            begins = [progress.begin()]
            self._client.consumer.incremental_unassign(begins)
            self._client.consumer.incremental_assign(begins)

    def _let_go(self) -> None:
        """What lies behind the ends of spans is not fetched any more."""
        for where in self._done:
            del self._open[where]
        if self._done and self._open and not self._client.is_poisoned:
            self._client.consumer.incremental_unassign(
                [KafkaPartition(*where) for where in self._done]
            )
        self._done.clear()

    def _refuse_silence(self) -> None:
        """No span waits for longer than it may.

        Raises:
            DataLost, Unreachable: one does.
        """
        for progress in self._open.values():
            if self._still - progress.moved_at > self._seconds:
                raise self._complaints.silence(progress.log, progress.position, self._seconds)


def _partition(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())
