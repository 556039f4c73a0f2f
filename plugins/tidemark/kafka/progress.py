"""How far one span is read, and what was met there."""

from math import inf
from operator import lt

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidemark.kafka.complaints import GONE, Complaints
from tidemark.kafka.corrupt import Unreadable, disorder
from tidemark.kafka.partition_log import PartitionLog
from tidemark.kafka.position import next_offset, position_after
from tidemark.model.offsets import LogPosition, Span


class Progress:
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
        """The consumer has to begin at the span: retention took what lies before."""
        self.moved_at = 0.0
        """When the position last changed, on the clock of the reading."""
        self._read_up_to = read_up_to
        self._log_end = inf
        self._end_seen = span.start

    @property
    def left(self) -> int:
        """Offsets up to the span's end."""
        return max(0, self.span.end - self.position)

    def begin(self) -> KafkaPartition:
        """Where a consumer begins: where the log was read up to, else at the position."""
        if self.is_to_begin_again:
            self.position, self._read_up_to = max(self.position, self.span.start), None
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
        self._pass_gaps()
        return self._inside(records, before)

    def look(self) -> None:
        """Without a record: markers, aborted and compacted records were passed."""
        self._hear_of_end()
        self._pass_gaps()

    def _hear_of_end(self) -> None:
        # A leader that has just been elected may tell an end before what was read already.
        told = self.log.told_end()
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
            elif error.code() in GONE and self._is_behind_retention():
                self.is_to_begin_again = True
                break
            elif found := complaints.unreadable(message, self.log, self.position):
                self.unreadable = found
                break
        return records

    def _is_behind_retention(self) -> bool:
        """Retention took what lies between the position and the span."""
        known = self.log.range() if self.position < self.span.start else None
        return known is not None and self.position < known[0] <= self.span.start

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
        for position in (self._end_seen, self.log.position()):
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
