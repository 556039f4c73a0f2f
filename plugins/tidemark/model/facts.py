"""Kafka facts: what the broker says at one moment, and what contradicts the ledger."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemark.model.errors import (
    LeftTopicsGone,
    NextOffsetsNotHeld,
    NotHeld,
    OtherCluster,
    TopicNotThatOfTheLedger,
)
from tidemark.model.offsets import Offsets, TopicPartition

RECHECK_SECONDS = 10.0
"""A leader that has just been elected may not have its last stable offset yet: so long, facts that
fall short of the ledger are asked for again before anything is called lost."""

RECHECK_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Facts:
    """Topics and offsets of a region as Kafka tells them; ends are last stable offsets."""

    cluster_id: str
    topic_ids: dict[str, str]
    log_starts: Offsets
    ends: Offsets
    high_watermarks: Offsets = field(default_factory=dict)
    """Ends of the logs with what open transactions still hide; asked only for an open."""
    starts: Offsets = field(default_factory=dict)
    """Start position of each partition, asked only for a region's first open."""
    unsubscribed: frozenset[str] = frozenset()
    """Topics that the ledger knows and the pipeline no longer reads."""
    gone: frozenset[str] = frozenset()
    """Those of them that Kafka no longer has."""
    rewritten: frozenset[TopicPartition] = frozenset()
    """Partitions whose log has another past than what was read; asked where loss is accepted."""
    deletions: Mapping[str, int | None] | None = None
    """For how many ms each topic keeps deletions, None for ever; without topics whose settings may
    not be asked for. None: no row of the region depends on deletions."""

    def deletions_kept(self, topic: str) -> int | None:
        """For how many ms the topic keeps deletions; None: for ever, or not known."""
        return self.deletions.get(topic) if self.deletions else None


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a partition's log ended when a run opened."""

    stable: int
    """Its last stable offset."""
    high_watermark: int
    since: datetime
    """When an open first saw this last stable offset below the high watermark; or that open."""


@dataclass(frozen=True, slots=True)
class SeenAtOpen:
    """What an open found out of partitions, by Kafka's facts and by what the ledger knew."""

    stuck: Mapping[TopicPartition, datetime]
    """See `stuck_since`."""
    accepted: frozenset[TopicPartition] = frozenset()
    """Deletions of these may be gone, and a person let the run go on without them."""


def stuck_since(
    facts: Facts, before: Mapping[TopicPartition, LogEnd]
) -> dict[TopicPartition, datetime]:
    """Where an open transaction has held the last stable offset since an earlier open, by time."""
    return {
        tp: seen.since
        for tp, seen in before.items()
        if facts.ends.get(tp)
        == seen.stable
        < min(seen.high_watermark, facts.high_watermarks.get(tp, 0))
    }


def refuse_other_cluster(region: str, known: str, facts: Facts) -> None:
    """Refuse another cluster.

    Raises:
        DataLost: offsets of one cluster mean nothing on another.
    """
    if facts.cluster_id != known:
        raise OtherCluster(region=region, known=known, found=facts.cluster_id)


def refuse_left_topics_gone(region: str, facts: Facts) -> None:
    """Refuse to mirror offsets of topics that are gone.

    Raises:
        DataLost: the pipeline left them, and Kafka no longer has them.
    """
    if facts.gone:
        raise LeftTopicsGone(region=region, topics=tuple(sorted(facts.gone)))


def refuse_other_topics(
    region: str, planned: Iterable[tuple[str, str]], topic_ids: Mapping[str, str]
) -> None:
    """Refuse topics that were deleted, or deleted and created again: offsets name other records.

    Raises:
        DataLost: a topic is gone or has another topic id.
    """
    for topic, topic_id in sorted(set(planned)):
        found = topic_ids.get(topic)
        if found != topic_id:
            raise TopicNotThatOfTheLedger(
                region=region, topic=topic, topic_id=topic_id, found_id=found
            )


def refuse_not_held(region: str, next_offsets: Offsets, facts: Facts) -> None:
    """Refuse to go on where Kafka no longer holds the next record, or never yet did.

    Raises:
        DataLost: names every missing range.
    """
    if missing := tuple(_missing(next_offsets, facts)):
        raise NextOffsetsNotHeld(region=region, partitions=missing)


def _missing(next_offsets: Offsets, facts: Facts) -> Iterable[NotHeld]:
    for tp, offset in sorted(next_offsets.items()):
        held = (facts.log_starts[tp], facts.ends[tp]) if tp in facts.ends else None
        if held is None or not held[0] <= offset <= held[1]:
            yield NotHeld(tp, offset, held)


def backlog(next_offsets: Offsets, targets: Offsets) -> int:
    """Offsets between the ledger and the target offsets."""
    return sum(max(0, end - next_offsets.get(p, end)) for p, end in targets.items())


def unknown_partitions(known: Iterable[TopicPartition], facts: Facts) -> list[TopicPartition]:
    """Partitions that Kafka has and the ledger does not know yet."""
    return sorted(facts.ends.keys() - set(known))


def is_pattern(text: str) -> bool:
    """A pattern begins with ^; a topic's name can't."""
    return text.startswith("^")


def takes_in(topics: Iterable[str], topic: str) -> bool:
    """Whether names and patterns take the topic in; a pattern must match the whole name."""
    return any(re.fullmatch(t, topic) if is_pattern(t) else t == topic for t in topics)
