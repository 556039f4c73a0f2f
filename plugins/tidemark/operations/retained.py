"""What Kafka no longer holds of a batch: without it, rows are only counted, not compared."""

from collections.abc import Iterator, Mapping, Sequence

from tidemark.kafka.retention import retentions
from tidemark.ledger.looks import PublishedSpan
from tidemark.model.batch import SpanRead
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span


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
