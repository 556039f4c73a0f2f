"""A reading of one span: where its consumer stands, and what it has met."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from operator import lt
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.kafka.complaints import Complaints
from tidemark.kafka.config import reader_config
from tidemark.kafka.corrupt import Unreadable, disorder
from tidemark.kafka.partition_log import PartitionLog
from tidemark.kafka.position import next_offset
from tidemark.model.offsets import LogPosition, Span

_LIST = 2000
_POLL_SECONDS = 0.5
_ABANDONED: list[Consumer] = []
"""Consumers that met a corrupt batch: their threads may never end, and whoever closes one waits for
them, or the process is aborted."""


class Reading:
    """One consumer on one span: where it stands, and since when it has not moved."""

    def __init__(
        self,
        config: Mapping[str, Any],
        span: Span,
        read_up_to: LogPosition | None,
        no_progress_seconds: float,
    ) -> None:
        self._span = span
        self._read_up_to = read_up_to
        self._position = span.start
        self._seconds = no_progress_seconds
        self._unreadable: Unreadable | None = None
        self.log_end = inf
        self._end_seen = span.start
        self._complaints = Complaints(span.topic_partition, config.get("bootstrap.servers"))
        self._consumer = Consumer(
            # A client of its own for each span: one assigned anew is no faster, and so nothing
            # of one span can leak into the next.
            {**reader_config(config), "error_cb": self._complaints.note}
        )
        self._log = PartitionLog(self._consumer, span.topic_partition)
        self.moved()

    @contextmanager
    def assigned(self) -> Iterator[None]:
        """Fetching from where the log was read up to, else from the span's start; closed after."""
        try:
            position = self._retained()
            self._position = position.offset if position else self._span.start
            fields = ("", position.leader_epoch) if position else ()
            start = KafkaPartition(*self._span.topic_partition, self._position, *fields)
            self._consumer.assign([start])
            yield
        finally:
            if self._unreadable:
                _ABANDONED.append(self._consumer)
            else:
                self._consumer.close()

    def _retained(self) -> LogPosition | None:
        """The position; None where retention took what lies between it and the span."""
        position = self._read_up_to
        if position is None or position.offset == self._span.start:
            return position
        known = self._log.range()
        is_gone = known is not None and position.offset < known[0] <= self._span.start
        return None if is_gone else position

    @property
    def position(self) -> int:
        """Up to where all is read."""
        return self._position

    def lists(self) -> Iterator[list[Message]]:
        """The records of the span in order; at its end nothing of it can come any more.

        Raises:
            Unreadable: what comes next is corrupt; all before it was yielded.
        """
        with self.assigned():
            while self._position < self._span.end:
                records = self.advance()
                if records:
                    yield records
                    self.moved()

    def moved(self) -> None:
        """Start the wait for progress anew."""
        self._deadline = monotonic() + self._seconds

    def advance(self) -> list[Message]:
        """Wait for what comes next; return the records of the span among it."""
        if self._unreadable:
            raise self._unreadable
        before = self._position
        records = self._sound(self._take())
        if records:
            self._position = next_offset(records[-1])
        if self._unreadable is None:
            # An end of partition may arrive beside records before it: they come first.
            self._pass(self._end_seen)
            self._pass(self._log.position())
        if self._position > before or self._unreadable:
            self.moved()
        elif monotonic() > self._deadline:
            raise self._complaints.silence(self._log, self._position, self._seconds)
        return self._inside(records, before)

    def _take(self) -> list[Message]:
        """One record or event as soon as there is one, and with it what else has arrived.

        consume(n) would wait for n records, which a span with gaps need not have.
        """
        taken = self._consumer.consume(1, _POLL_SECONDS)
        more = min(_LIST, self._span.end - self._position - 1)
        if taken and more > 0:
            taken += self._consumer.consume(more, 0)
        # A leader that has just been elected may tell an end before what was read already.
        told = self._log.told_end()
        self.log_end = told if self.log_end == inf else max(told, self.log_end)
        if not any(map(Message.error, taken)):
            return taken  # type: ignore[no-any-return]
        records = []
        for message in taken:
            if message.error() is None:
                records.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._end_seen = message.offset()
            elif found := self._complaints.unreadable(message, self._log, self._position):
                self._unreadable = found
                break
        return records

    def _sound(self, records: list[Message]) -> list[Message]:
        """The records up to the first whose offset can't be."""
        if not records:
            return records
        offsets = [record.offset() for record in records]
        end = self.log_end
        if (
            self._position <= offsets[0]
            and offsets[-1] < end
            and all(map(lt, offsets, offsets[1:]))
        ):
            return records
        at = disorder(offsets, self._position, end)
        if at is None:
            return records
        self._unreadable = Unreadable(
            f"a record claims offset {offsets[at]}, but the log ends at {self.log_end}"
        )
        return records[:at]

    def _pass(self, position: int) -> None:
        """What lies before the position holds no record that was not taken."""
        # Up to the span's start the log was there, though a new leader may tell an earlier end.
        if position > max(self._span.start, self.log_end):
            self._unreadable = Unreadable(
                f"a batch claims to end at {position}, but the log ends at {self.log_end}"
            )
        self._position = (
            max(self._position, position) if self._unreadable is None else self._position
        )

    def _inside(self, records: list[Message], before: int) -> list[Message]:
        first = max(before, self._span.start)
        if records and records[0].offset() >= first and records[-1].offset() < self._span.end:
            return records
        return [record for record in records if first <= record.offset() < self._span.end]
