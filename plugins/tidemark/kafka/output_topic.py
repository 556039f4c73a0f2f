"""Output topics, looked at: whether they are there, and the newest batch in their records."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from tidemark.deadline import Deadline
from tidemark.kafka.errors import OutputTopicMissing
from tidemark.kafka.facts import Broker
from tidemark.kafka.headers import headers_of
from tidemark.kafka.spans import read_spans
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span, TopicPartition
from tidemark.protocol.errors import OutputTailsUnread

SEQ = rb"[0-9]{1,18}"

TAIL = 1000
"""Offsets at the end of each partition that are read first; then further back, more at a time."""

MOST_TAIL = 100_000
"""Read of each partition at once: a second or so."""

TAIL_SECONDS = 60.0
"""A topic in which others have sent so much since is not searched for longer."""


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """The topics that a region's rows and dead letters are sent to."""

    config: Mapping[str, str]
    names: Sequence[str]

    def facts(self) -> Facts:
        """Their partitions and where their logs begin and end.

        Raises:
            InvalidSettings: one does not exist.
        """
        broker = Broker(self.config)
        for name in sorted(broker.gone(self.names)):
            raise OutputTopicMissing(topic=name)
        return broker.facts(self.names)

    def newest_seq(self, region: str) -> int | None:
        """The largest seq in the headers of the region's records; None: there are none.

        The tails tell: the seqs of a region rise within a partition. It reads back from each end to
        the first record of the region, which is the last of all unless others send there too.

        Raises:
            Refused: that takes too long.
        """
        facts, deadline = self.facts(), Deadline(TAIL_SECONDS)
        width, found = TAIL, set[int]()
        ends = {tp: end for tp, end in facts.ends.items() if facts.log_starts[tp] < end}
        while ends:
            spans = [
                Span(*tp, max(facts.log_starts[tp], end - width), end) for tp, end in ends.items()
            ]
            here = self._newest_in(spans, region)
            found |= {*here.values()}
            ends = {
                span.topic_partition: span.start
                for span in spans
                if span.topic_partition not in here
                and span.start > facts.log_starts[span.topic_partition]
            }
            if ends and deadline.is_past:
                raise OutputTailsUnread(region=region, partitions=tuple(sorted(ends)))
            width = min(4 * width, MOST_TAIL)
        return max(found, default=None)

    def _newest_in(self, spans: Sequence[Span], region: str) -> dict[TopicPartition, int]:
        """The largest seq of the region's records in each span that holds some."""
        found: dict[TopicPartition, int] = {}
        for records in read_spans(self.config, spans):
            for record in records:
                if (seq := seq_in(record, region)) is not None:
                    place = TopicPartition(record.topic() or "", record.partition() or 0)
                    found[place] = max(seq, found.get(place, 0))
        return found


def seq_in(record: Message, region: str) -> int | None:
    """The seq of a record that the region has sent."""
    headers = dict(headers_of(record) or ())
    seq = headers.get("seq") or b""
    if headers.get("region") != region.encode() or not re.fullmatch(SEQ, seq):
        return None
    return int(seq)
