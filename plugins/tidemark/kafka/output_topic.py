"""Output topics, looked at: whether they are there, and the newest batch in their records."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from tidemark.kafka.errors import OutputTopicMissing
from tidemark.kafka.facts import Broker
from tidemark.kafka.headers import headers_of
from tidemark.kafka.spans import read_spans
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span

SEQ = rb"[0-9]{1,18}"


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

        It reads all that the topics hold: it is asked where nothing else says what was sent.
        """
        return max(self._seqs(region), default=None)

    def _seqs(self, region: str) -> Iterator[int]:
        facts = self.facts()
        spans = [
            Span(*tp, facts.log_starts[tp], end)
            for tp, end in facts.ends.items()
            if facts.log_starts[tp] < end
        ]
        for records in read_spans(self.config, spans) if spans else ():
            for record in records:
                if (seq := seq_in(record, region)) is not None:
                    yield seq


def seq_in(record: Message, region: str) -> int | None:
    """The seq of a record that the region has sent."""
    headers = dict(headers_of(record) or ())
    seq = headers.get("seq") or b""
    if headers.get("region") != region.encode() or not re.fullmatch(SEQ, seq):
        return None
    return int(seq)
