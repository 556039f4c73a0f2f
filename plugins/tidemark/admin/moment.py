"""A time as the place of a rewind: which checkpoint it means, and whether that can still be told.

Kafka is asked for the first record at or after the time, and knows only of records that it holds.
So each batch that would stay, and was published later, is shown to hold none of that time: all its
records are there still, and before the answer. What was published earlier had been written before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidemark.admin.errors import RewindTimeUnknown, RewindTooFar
from tidemark.admin.held import Counting, missing
from tidemark.kafka.retention import retentions
from tidemark.ledger.queries import SpanInTime
from tidemark.model.facts import Facts
from tidemark.runs.region import Region, facts_left, topics_gone


def seq_of(region: Region, to: int | datetime, *, counts: bool = True) -> int:
    """The checkpoint that a destination means; a time: the newest without a record from then on.

    Without `counts` no record is read: what compaction may have taken is refused.

    Raises:
        Refused: it lies before the oldest checkpoint that is kept; or Kafka no longer holds what
            would tell.
    """
    if isinstance(to, int):
        return to
    known = region.known_partitions()
    gone = topics_gone(region, known)
    partitions = sorted(tp for tp in known if tp.topic not in gone)
    offsets = region.broker.offsets_at(partitions, int(to.timestamp() * 1000))
    seq = region.ledger.checkpoint_before(region.name, offsets)
    oldest = region.state().oldest_seq
    past = _Past.of(region, to, counts=counts)
    if seq < oldest or past.is_forgotten(oldest):
        raise RewindTooFar(region=region.name, moment=to, oldest_seq=oldest)
    past.refuse_untold(seq)
    return seq


@dataclass(frozen=True, slots=True)
class _Past:
    """What was published since a time, and what Kafka holds of it; asked for after the offsets."""

    region: Region
    moment: datetime
    spans: list[SpanInTime]
    facts: Facts
    compacted: frozenset[str]
    """Topics of which compaction may have taken records."""
    counts: bool

    @classmethod
    def of(cls, region: Region, moment: datetime, *, counts: bool) -> "_Past":
        spans = region.ledger.queries.spans_since(region.name, moment)
        facts = facts_left(region.broker, {tp.topic for tp in region.known_partitions()})
        settings = retentions(region.kafka, facts.topic_ids)
        compacted = frozenset(topic for topic, one in settings.items() if one.may_compact)
        return cls(
            region=region,
            moment=moment,
            spans=spans,
            facts=facts,
            compacted=compacted,
            counts=counts,
        )

    def is_forgotten(self, oldest: int) -> bool:
        """Whether a batch before the oldest, of which the ledger keeps nothing, may be of the time.

        Not where Kafka holds all that was ever read: then it has told the first record of the time.
        """
        if not oldest or all(one.seq > oldest for one in self.spans):
            return False
        places = self.region.ledger.rewind_plan(self.region.name, 0).places
        starts = self.facts.log_starts
        is_whole = all(tp in starts and starts[tp] <= one.offset for tp, one in places.items())
        return bool(self.compacted) or not is_whole

    def refuse_untold(self, seq: int) -> None:
        """Refuse a checkpoint of which Kafka can't tell that it holds no record of the time."""
        faults = [*self._faults(one for one in self.spans if one.seq <= seq)]
        if not faults:
            return
        later = self._faults(one for one in self.spans if one.seq > seq)
        newest, _ = [*faults, *later][-1]
        raise RewindTimeUnknown(
            region=self.region.name,
            moment=self.moment,
            faults=tuple(fault for _, fault in faults),
            told_seq=newest.seq,
            told_from=newest.published_at,
        )

    def _faults(self, spans: Iterator[SpanInTime]) -> Iterator[tuple[SpanInTime, str]]:
        """Each span of which Kafka does not hold all records, or may not; in the spans' order."""
        counting = Counting(self.region.kafka)
        with counting:
            for one in spans:
                found = [*missing([one.published], self.facts)]
                if not found and one.published.span.topic in self.compacted:
                    found = self._compacted(counting, one)
                yield from ((one, fault) for fault in found)

    def _compacted(self, counting: Counting, one: SpanInTime) -> list[str]:
        span = one.published.span
        if self.counts:
            return counting.missing(span, one.published.records)
        return [
            f"{span} may have been compacted, and its records are not counted here: ask"
            " `tidemark reset`"
        ]
