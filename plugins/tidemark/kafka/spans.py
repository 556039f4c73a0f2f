"""Reading spans: every visible record of [start, end), or an error; never a part in silence.

One client reads all spans, and here is kept where each stands and what was met there. What the
client complains of meanwhile is kept apart from the errors that end the read. Here alone is counted
on from one record's offset to the next.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from math import inf
from operator import lt
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.errors import DataLost, Unreachable
from tidemark.kafka._client import Client, client_for
from tidemark.kafka._corrupt import PASSING, UNTOLD, Unreadable, disorder
from tidemark.kafka.config import BATCH_BY_BATCH, fetching, reader_config
from tidemark.kafka.errors import (
    BatchUnreadable,
    OffsetNotHeld,
    PartitionGone,
    RecordsNotAsked,
    SpanNotRead,
)
from tidemark.model.offsets import LogPosition, Span, TopicPartition

_SECONDS = 5
"""For an answer of the broker."""


class PartitionLog:
    """Where the log begins and ends, and where the consumer stands in it."""

    def __init__(self, consumer: Consumer, partition: TopicPartition) -> None:
        self._consumer = consumer
        self.partition = partition
        self._kafka = KafkaPartition(*partition)

    def position(self) -> int:
        """The consumer's own: it passes markers and aborted records, a record's does not."""
        return int(self._consumer.position([self._kafka])[0].offset)

    def log_end(self) -> float:
        """The log's end as the newest answer of the broker told it; infinite before the first."""
        end = self._consumer.get_watermark_offsets(self._kafka, cached=True)[1]
        return end if end >= 0 else inf

    def range(self) -> tuple[int, int] | None:
        """Start and end, asked of the broker; None if it does not answer."""
        try:
            return self._consumer.get_watermark_offsets(self._kafka, _SECONDS)  # type: ignore[no-any-return]
        except KafkaException:
            return None

    def is_gone(self) -> bool:
        """Whether the broker says that there is no such topic or partition."""
        topic, number = self.partition
        try:
            metadata = self._consumer.list_topics(topic, _SECONDS)
        except KafkaException:
            return False
        return number not in metadata.topics[topic].partitions


GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}
"""Kafka does not hold the position, or holds another history there."""

_REFUSED = {
    KafkaError._FATAL,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


class Complaints:
    """The last complaints of one consumer, of each partition and of no one, and errors of them."""

    def __init__(self, brokers: str | None) -> None:
        self._brokers = brokers
        self._last: dict[TopicPartition | None, str] = {None: "no error was reported"}

    def note(self, error: KafkaError, partition: TopicPartition | None = None) -> None:
        """Keep it, to be named if the read fails."""
        self._last[partition] = f"{error.name()}: {error.str()}"

    def unreadable(self, event: Message, log: PartitionLog, position: int) -> Unreadable | None:
        """None for an error that passes by itself; Unreadable for one that nobody knows.

        Raises:
            DataLost: Kafka does not hold the position.
            Unreachable: Kafka refuses the read.
        """
        error = event.error()
        if error.code() in GONE:
            raise OffsetNotHeld(
                topic_partition=log.partition,
                offset=position,
                log_range=log.range(),
                cause=error.str(),
            )
        if error.code() in _REFUSED or error.fatal():
            self.note(error, log.partition)
            raise self._not_read(log, position)
        if error.code() in PASSING or event.topic() is None:
            self.note(error, None if event.topic() is None else log.partition)
            return None
        is_packed = error.code() == KafkaError._BAD_COMPRESSION
        why = f"{error.name()}: {error.str()}"
        return Unreadable(why, event.offset(), is_packed=is_packed)

    def silence(
        self, log: PartitionLog, position: int, seconds: float
    ) -> PartitionGone | SpanNotRead:
        """The error of a span whose position has not moved for so long."""
        if log.is_gone():
            return PartitionGone(topic_partition=log.partition, offset=position)
        return self._not_read(log, position, seconds)

    def _not_read(
        self, log: PartitionLog, position: int, seconds: float | None = None
    ) -> SpanNotRead:
        return SpanNotRead(
            topic_partition=log.partition,
            offset=position,
            brokers=self._brokers,
            seconds=seconds,
            cause=self._last.get(log.partition, self._last[None]),
        )


def next_offset(record: Message) -> int:
    """The offset to read after this record."""
    return int(record.offset()) + 1


def position_after(record: Message) -> LogPosition | None:
    """Where the log goes on after this record; None if the broker tells no leader epoch."""
    leader_epoch = record.leader_epoch()
    return None if leader_epoch is None else LogPosition(next_offset(record), leader_epoch)


class SpanProgress:
    """Where a consumer stands in one span: what it gave is checked before it counts."""

    log: PartitionLog
    """As the consumer sees it that reads now."""

    def __init__(self, span: Span, read_up_to: LogPosition | None = None) -> None:
        self.span = span
        self.position = span.start
        """Up to where all is read."""
        self.unreadable: Unreadable | None = None
        """What comes next can't be read; nothing behind it is taken or passed."""
        self.is_to_begin_again = False
        """The consumer must be assigned again: Kafka refused an offset before the span, which need
        not be read."""
        self.moved_at = 0.0
        """When the position last changed, on the clock of the reading."""
        self._read_up_to = read_up_to
        self._is_anew = False
        """No record came since it began again: the consumer may still tell where it stood."""
        self._log_end = inf
        self._end_seen = 0

    @property
    def left(self) -> int:
        """Offsets up to the span's end."""
        return max(0, self.span.end - self.position)

    def begin(self) -> KafkaPartition:
        """Where a consumer begins: where the log was read up to, else at the position."""
        self.is_to_begin_again = False
        if self._read_up_to is None:
            return KafkaPartition(*self.span.topic_partition, self.position)
        self.position, leader_epoch = self._read_up_to
        return KafkaPartition(*self.span.topic_partition, self.position, "", leader_epoch)

    def take(self, messages: list[Message], complaints: Complaints) -> list[Message]:
        """The records of the span among what came of its partition.

        Raises:
            DataLost: Kafka does not hold the position.
            Unreachable: Kafka refuses the read.
        """
        before = self.position
        self._hear_of_end()
        records = self._sound(self._records(messages, complaints))
        if records:
            self.position = next_offset(records[-1])
            self._read_up_to = position_after(records[-1])
            self._is_anew = self.is_to_begin_again
        self._pass_gaps()
        return self._inside(records, before)

    def pass_empty_poll(self) -> None:
        """Without a record: markers, aborted and compacted records were passed."""
        self._hear_of_end()
        self._pass_gaps()

    def _hear_of_end(self) -> None:
        # A leader that has just been elected may tell an end before what was read already.
        told = self.log.log_end()
        self._log_end = told if self._log_end == inf else max(told, self._log_end)

    def _records(self, messages: list[Message], complaints: Complaints) -> list[Message]:
        if not any(map(Message.error, messages)):
            return messages
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._end_seen = message.offset()
            elif error.code() in GONE and self._is_behind_retention(self._asked(message)):
                self._begin_again(self._asked(message))
                break
            elif found := complaints.unreadable(message, self.log, self.position):
                self.unreadable = found
                break
        return records

    def _asked(self, answer: Message) -> int:
        """The offset that was asked for; where the answer does not say it, the position."""
        offset: int | None = answer.offset()
        return self.position if offset is None else offset

    def _is_behind_retention(self, asked: int) -> bool:
        """Retention took what lies between the offset that was asked for and the span."""
        known = self.log.range() if asked < self.span.start else None
        return known is not None and asked < known[0] <= self.span.start

    def _begin_again(self, asked: int) -> None:
        """An answer to what was asked before may come late, or twice: then all stands as it was."""
        if self._read_up_to and self._read_up_to.offset <= asked:
            self._read_up_to = None
        self.position = max(self.position, self.span.start)
        self.is_to_begin_again = self._is_anew = True

    def _sound(self, records: list[Message]) -> list[Message]:
        """The records up to the first whose offset can't be."""
        if not records:
            return records
        offsets = list(map(Message.offset, records))
        end = self._log_end
        if self.position <= offsets[0] and offsets[-1] < end and all(map(lt, offsets, offsets[1:])):
            return records
        at = disorder(offsets, self.position, end)
        if at is None:
            return records
        self.unreadable = Unreadable(
            f"a record claims offset {offsets[at]}, but the log ends at {end}"
        )
        return records[:at]

    def _pass_gaps(self) -> None:
        # An end of partition may arrive beside records before it: they come first.
        positions = [self._end_seen] if self._is_anew else [self._end_seen, self.log.position()]
        for position in positions:
            if self.unreadable is None:
                self._pass(position)

    def _pass(self, position: int) -> None:
        """What lies before the position holds no record that was not taken."""
        # Up to the span's start the log was there, though a new leader may tell an earlier end.
        if position > max(self.span.start, self._log_end):
            self.unreadable = Unreadable(
                f"a batch claims to end at {position}, but the log ends at {self._log_end}"
            )
        else:
            self.position = max(self.position, position)

    def _inside(self, records: list[Message], before: int) -> list[Message]:
        first = max(before, self.span.start)
        if records and records[0].offset() >= first and records[-1].offset() < self.span.end:
            return records
        return [record for record in records if first <= record.offset() < self.span.end]


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
        spans: Sequence[SpanProgress],
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
            met = [one.unreadable for one in self._open.values() if one.unreadable]
            if met and not self._has_widened(met):
                raise next((one for one in met if not one.is_packed), met[0])
            for progress in self._open.values():
                progress.unreadable = None

    def _has_widened(self, met: Sequence[Unreadable]) -> bool:
        """Whether the next client takes what this one could not unpack: batch by batch, from there.

        Only once: what does not unpack then is corrupt. Two spans may have met such a batch.
        """
        if self._max_unpacked is None or not all(one.is_packed for one in met):
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
            self._pass_empty_poll()
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
        # An event of the client as a whole has no topic, and yet says partition 0.
        has_events = any(map(Message.error, taken))
        for _, run in groupby(taken, _partition if has_events else self._kind):
            messages = list(run)
            parts.setdefault(_partition(messages[0]), []).extend(messages)
        return parts

    def _heed(self, where: TopicPartition, run: list[Message]) -> list[Message]:
        """The records of a span among what came of its partition, if it is still read."""
        progress = self._open.get(where)
        if progress is None:
            if where not in self._spans:
                events = [*filter(Message.error, run)]
                if len(events) < len(run):
                    raise RecordsNotAsked(topic_partition=where, records=len(run) - len(events))
                self._heed_of_no_span(events)
            return []
        with self._noted(progress):
            return progress.take(run, self._complaints)

    def _heed_of_no_span(self, events: list[Message]) -> None:
        """Of the client, or of a whole topic: they are told of one span that is still read."""
        for event in events:
            alike = (one for one in self._open.values() if one.span.topic == event.topic())
            progress = next(alike, next(iter(self._open.values())))
            with self._noted(progress):
                found = self._complaints.unreadable(event, progress.log, progress.position)
                progress.unreadable = progress.unreadable or found

    def _pass_empty_poll(self) -> None:
        """Nothing came: markers, aborted and compacted records may have been passed."""
        for progress in self._open.values():
            with self._noted(progress):
                progress.pass_empty_poll()

    @contextmanager
    def _noted(self, progress: SpanProgress) -> Iterator[None]:
        """What the block does to the span is noted: how far it comes, and what it meets."""
        left = progress.left
        yield
        if progress.left and progress.is_to_begin_again:
            begins = [progress.begin()]
            self._client.consumer.incremental_unassign(begins)
            self._client.consumer.incremental_assign(begins)
        if progress.left < left:
            self._left -= left - progress.left
            progress.moved_at = self._still
        self._client.is_poisoned |= progress.unreadable is not None
        if progress.left == 0:
            self._done.add(progress.span.topic_partition)

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
        """No span waits for longer than it may."""
        for progress in self._open.values():
            if self._still - progress.moved_at > self._seconds:
                raise self._complaints.silence(progress.log, progress.position, self._seconds)


def _partition(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


_PROBE_SECONDS = 5.0


def read_spans(
    config: Mapping[str, Any],
    spans: Sequence[Span],
    *,
    read_up_to: Mapping[TopicPartition, LogPosition] | None = None,
    no_progress_seconds: float = 60.0,
    max_unpacked: int | None = None,
) -> Iterator[list[Message]]:
    """Yield all visible records of the spans, none outside them, in lists of one span each.

    The spans, each of another partition, are read side by side; the records of one come in order.
    Exhausted means complete: each position is known to have passed or reached its end, however
    many offsets hold no record (markers, aborted or compacted records). Memory is bounded by the
    queue settings, not by the spans. `read_up_to` is the position after the last record before a
    span: fetching begins there, so that a rewritten log is noticed (KIP-320). The epoch of that
    record says nothing of a later offset: markers may be of a newer leader. `max_unpacked` are the
    bytes that a compressed batch may unpack to where the client's own limit is less.

    Raises:
        CorruptRecord: what comes next in a span is corrupt; all before it was yielded. The consumer
            lives on without purpose, and the process should end.
        DataLost: Kafka does not hold a needed offset, or holds another history there.
        Unreachable: a position did not move for `no_progress_seconds` of waiting, or the login is
            refused.
    """
    positions = read_up_to or {}
    parts = [SpanProgress(span, positions.get(span.topic_partition)) for span in spans]
    reading = Reading(config, parts, no_progress_seconds, max_unpacked)
    try:
        yield from reading.lists()
    except Unreadable as error:
        stuck = next(part for part in parts if part.unreadable is error)
        raise BatchUnreadable(
            topic=stuck.span.topic,
            partition=stuck.span.partition,
            offset=stuck.position,
            cause=str(error),
            is_packed=error.is_packed,
        ) from error


def met_in(
    config: Mapping[str, Any], span: Span, tell: Callable[[int], None]
) -> tuple[int, int | None]:
    """Up to where the span can be read, and what reading it meets there: None is its end.

    Else the first offset of a corrupt batch; or UNTOLD, also if for 5 s nothing came at all.
    `tell` hears each position. After a corrupt batch the process must end.
    """
    part = SpanProgress(span)
    try:
        for _ in Reading(config, [part], _PROBE_SECONDS).lists():
            tell(part.position)
    except Unreadable as error:
        return part.position, error.batch
    except (DataLost, Unreachable):
        return part.position, UNTOLD
    return part.position, None
