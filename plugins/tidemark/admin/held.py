"""What Kafka still holds: of the records that a rewind would read again, and of a batch to prove.

Without its records a batch is only counted, not compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event

from tidemark.admin.errors import RewindWouldLose
from tidemark.errors import CorruptRecord, DataLost
from tidemark.kafka.retention import Retention, oldest_timestamp, retentions
from tidemark.kafka.spans import read_spans
from tidemark.ledger.queries import PublishedSpan
from tidemark.ledger.rewinds import Reread
from tidemark.model.batch import SpanRead
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span, TopicPartition
from tidemark.protocol.rewind_plan import RewindPlan
from tidemark.runs.region import Region

Tell = Callable[[str], None]
"""Takes how far it has come, every few seconds."""

TELL_SECONDS = 2.0
_READERS = 4


@dataclass(frozen=True, slots=True)
class Held:
    """What of a partition can't be read again, one text a fact, and when Kafka may delete it."""

    faults: tuple[str, ...] = ()
    seconds: int | None = None
    """Until the oldest needed record is due for deletion; None if it never is, or has no time."""


def held(region: Region, plan: RewindPlan, tell: Tell) -> dict[TopicPartition, Held]:
    """Look at each partition that would be read again; nobody is fenced meanwhile.

    Where compaction may take records, all that the ledger counted are counted again. Elsewhere the
    oldest span is: a topic that was compacted before has lost the oldest records first.
    """
    again = [one for one in region.ledger.reread(region.name, plan.to_seq)
             if one.span.topic_partition in plan.places]  # fmt: skip
    settings = retentions(region.kafka, {one.span.topic for one in again}) if again else {}
    now = int(region.ledger.queries.now().timestamp())
    counting = Counting(region.kafka)
    with ThreadPoolExecutor(_READERS) as readers, counting:
        looks = {
            one.span.topic_partition: readers.submit(
                _held, counting, plan, one, settings[one.span.topic], now
            )
            for one in again
        }
        while wait(looks.values(), TELL_SECONDS).not_done:
            tell(f"counted {sum(counting.counts)} records that Kafka still holds")
        return {partition: look.result() for partition, look in looks.items()}


def refuse_losses(region: str, found: Mapping[TopicPartition, Held]) -> None:
    """Refuse a rewind whose records would not all come back.

    Raises:
        Refused: with the ranges and the numbers.
    """
    faults = tuple(fault for _, one in sorted(found.items()) for fault in one.faults)
    if faults:
        raise RewindWouldLose(region=region, faults=faults)


@dataclass(slots=True)
class Counting:
    """Counts records in threads; at the end of its block, or when that is interrupted, they end."""

    config: Mapping[str, str]
    counts: list[int] = field(default_factory=list)
    _ended: Event = field(default_factory=Event)

    def __enter__(self) -> None:
        """Counting may begin."""

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def missing(self, span: Span, records: int) -> list[str]:
        """What the span lacks of its records."""
        try:
            left = self._count(span)
        except (CorruptRecord, DataLost) as error:
            return [f"{span} can't be read: {error}"]
        if left >= records:
            return []
        took = f"compaction took {records - left}"
        return [f"{span} held {records} records and holds {left}: {took}"]

    def _count(self, span: Span) -> int:
        left = 0
        for block in read_spans(self.config, [span]):
            left += len(block)
            self.counts.append(len(block))
            if self._ended.is_set():
                break
        return left


def _held(
    counting: Counting, plan: RewindPlan, reread: Reread, retention: Retention, now: int
) -> Held:
    tp, faults = reread.span.topic_partition, list[str]()
    start = plan.places[tp].offset
    if retention.may_compact:
        if start < reread.span.start:
            faults.append(
                f"{Span(*tp, start, reread.span.start)} may have been compacted, and the ledger has"
                " forgotten how many records it held"
            )
        faults += counting.missing(reread.span, reread.records)
    else:
        faults += counting.missing(reread.first, reread.first_records)
    if retention.milliseconds is None:
        return Held(tuple(faults))
    written = oldest_timestamp(counting.config, Span(*tp, start, reread.span.end))
    seconds = None if written is None else (written + retention.milliseconds) // 1000 - now
    if seconds is not None and seconds <= 0:
        faults.append(
            f"{tp}@{start} has been due for deletion for {-seconds} s (retention.ms is"
            f" {retention.milliseconds}): raise retention.ms first"
        )
    return Held(tuple(faults), seconds)


def missing(spans: Sequence[PublishedSpan], facts: Facts) -> Iterator[str]:
    """Each range of the spans that Kafka no longer holds, and why."""
    for published in spans:
        span, partition = published.span, published.span.topic_partition
        topic_id = facts.topic_ids.get(span.topic)
        if topic_id is None:
            yield f"{span}: the topic is gone"
        elif topic_id != published.topic_id:
            yield f"{span}: the topic was created again"
        elif partition not in facts.ends:
            yield f"{span}: the partition is gone"
        elif published.is_ended:
            yield f"{span}: read from a log whose loss was accepted; other records may be there now"
        elif (start := facts.log_starts[partition]) > span.start:
            lost = Span(*partition, span.start, min(start, span.end))
            yield f"{lost}: below the log start {start}, retention took it"
        elif (end := facts.ends[partition]) < span.end:
            lost = Span(*partition, max(end, span.start), span.end)
            yield f"{lost}: beyond the log's end {end}, it was truncated"


def compacted(
    config: Mapping[str, str], spans: Sequence[PublishedSpan], reads: Sequence[SpanRead]
) -> Iterator[str]:
    """Each span of a compacted topic that gives fewer records than the ledger counted."""
    counted = {read.span: read.records for read in reads}
    shrunk = [one for one in spans if counted.get(one.span, 0) < one.records]
    settings = retentions(config, {one.span.topic for one in shrunk}) if shrunk else {}
    for one in shrunk:
        if "compact" in (settings[one.span.topic].policy or ""):
            left = counted.get(one.span, 0)
            yield f"{one.span}: {one.records - left} of {one.records} records were compacted away"
