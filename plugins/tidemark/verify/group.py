"""Groups: consecutive batches that one job reads again, each partition's spans as one span.

A job has a fixed cost, so small batches are proven together. That is as strict only where it proves
each of them, so a group is equal only if
  - each row is made of one record, whose coordinates it bears, however batches are cut;
  - the rows and dead letters of all its batches are, as multisets, those read again;
  - each of them lies in the span of its own batch;
  - each span's counts are those of its rows and letters, or it has a record at every offset.
Any other group is halved, down to single batches: their proofs name what differs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.ledger.looks import PublishedSpan
from tidemark.model.offsets import TopicPartition
from tidemark.verify.report import BatchProof

RECORDS = 100_000
"""Records of a group: enough to make a job's fixed cost small, few enough to see progress."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch of which only the counts are compared yet."""

    proof: BatchProof
    spans: Sequence[PublishedSpan]
    is_readable: bool
    """Whether its records can be read again and its rows compared."""
    is_upsert: bool = False
    """Whether a later batch may have changed its rows."""
    is_purged: bool = False
    """Whether dead letters of it were purged."""
    replayed: int | None = None
    """Of a replay, how many dead letters became its rows."""

    @property
    def is_alone(self) -> bool:
        """Whether it is in no group: its report names something of its own, or its keys decide."""
        is_odd = self.is_upsert or self.is_purged or self.replayed is not None
        return is_odd or not self.is_readable or bool(self.proof.wrong)


def groups(batches: Iterable[Begun]) -> Iterator[list[Begun]]:
    """All batches in their order; spans of one partition join without a gap within a group."""
    group: list[Begun] = []
    ends: dict[TopicPartition, tuple[str, int]] = {}
    records = 0
    for one in batches:
        records += one.proof.records
        if group and (records > RECORDS or not _joins(group[-1], one, ends)):
            yield group
            group, ends, records = [], {}, one.proof.records
        group.append(one)
        ends |= {
            planned.span.topic_partition: (planned.topic_id, planned.span.end)
            for planned in one.spans
        }
    if group:
        yield group


def joined(spans: Iterable[PublishedSpan]) -> list[PublishedSpan]:
    """One span for each partition, from first start to last end, with the sums of the counts."""
    found: dict[TopicPartition, PublishedSpan] = {}
    for one in spans:
        before = found.get(one.span.topic_partition)
        found[one.span.topic_partition] = _longer(before, one) if before else one
    return list(found.values())


def _joins(last: Begun, one: Begun, ends: dict[TopicPartition, tuple[str, int]]) -> bool:
    if last.is_alone or one.is_alone:
        return False
    starts = {
        planned.span.topic_partition: (planned.topic_id, planned.span.start)
        for planned in one.spans
    }
    return all(ends.get(partition, start) == start for partition, start in starts.items())


def _longer(before: PublishedSpan, after: PublishedSpan) -> PublishedSpan:
    return replace(
        after,
        span=replace(after.span, start=before.span.start),
        records=before.records + after.records,
        dead_letters=before.dead_letters + after.dead_letters,
    )
