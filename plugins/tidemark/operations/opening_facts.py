"""The facts an open rests on; where partitions start when the region first opens."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemark.kafka.facts import rewritten
from tidemark.model.facts import RECHECK_PAUSE, RECHECK_SECONDS, Facts
from tidemark.model.offsets import LogPosition, Offsets, TopicPartition
from tidemark.model.state import Partition
from tidemark.operations.errors import (
    NewRegionCommitsTooFar,
    NewRegionHasCommits,
    NewRegionLacksCommits,
)
from tidemark.operations.region import Region, unsubscribed
from tidemark.protocol.open import ACCEPT_DATA_LOSS
from tidemark.settings.kafka import FromTimestamp, StartPosition

ADOPT_GROUP = "adopt_group"
"""The override that lets a new region replace the commits of its group."""


def opening_facts(region: Region, overrides: Sequence[str]) -> Facts:
    """Kafka's facts for an open, with high watermarks; with start positions where it is the first.

    Ends below the ledger's offsets are asked for again for a while: a leader that has just
    been elected may not have its last stable offset yet.

    Raises:
        Refused: the group has commits that the start position would pass over; or lacks them, or
            has them beyond the logs' ends.
    """
    facts = _facts_of_logs(region, overrides)
    tops = region.broker.high_watermarks(sorted(facts.ends))
    _refuse_starts_beyond(region, facts.starts, tops)
    return replace(facts, high_watermarks=tops)


def _refuse_starts_beyond(region: Region, starts: Offsets, tops: Offsets) -> None:
    """What comes up to there would be passed over in silence.

    Against the high watermarks: a consumer that reads uncommitted records may stand above the last
    stable offset.
    """
    beyond = {tp: start for tp, start in starts.items() if start > tops[tp]}
    if beyond:
        raise NewRegionCommitsTooFar(
            region=region.name,
            group=region.group.group_id,
            ends={tp: tops[tp] for tp in beyond},
            committed=beyond,
        )


def _facts_of_logs(region: Region, overrides: Sequence[str]) -> Facts:
    topics = region.broker.topics(region.pipeline.kafka.topics)
    known = region.known_partitions()
    if not known:
        return _first_facts(region, region.broker.facts(topics), overrides)
    facts = region.broker.facts(topics)
    deadline = time.monotonic() + RECHECK_SECONDS
    while _is_short(known, facts) and time.monotonic() < deadline:
        time.sleep(RECHECK_PAUSE)
        facts = region.broker.facts(topics)
    left = unsubscribed(region, known)
    facts = replace(facts, unsubscribed=left, gone=region.broker.gone(left))
    if ACCEPT_DATA_LOSS not in overrides:
        return facts
    return replace(facts, rewritten=rewritten(region.kafka, _read_up_to(known, facts)))


def _read_up_to(
    known: Mapping[TopicPartition, Partition], facts: Facts
) -> dict[TopicPartition, LogPosition]:
    """Where the log goes on after the last record that was read, in partitions that hold it."""
    found = {tp: position for tp, partition in known.items() if (position := partition.read_up_to)}
    return {
        tp: position
        for tp, position in found.items()
        if facts.topic_ids.get(tp.topic) == known[tp].topic_id
        and tp in facts.ends
        and facts.log_starts[tp] <= position.offset <= facts.ends[tp]
    }


def _is_short(known: Mapping[TopicPartition, Partition], facts: Facts) -> bool:
    return any(facts.ends.get(tp, p.next_offset) < p.next_offset for tp, p in known.items())


def _first_facts(region: Region, facts: Facts, overrides: Sequence[str]) -> Facts:
    start = region.pipeline.kafka.start
    committed = region.group.committed(facts.ends)
    if committed and start is not StartPosition.committed and ADOPT_GROUP not in overrides:
        raise NewRegionHasCommits(
            region=region.name,
            group=region.group.group_id,
            committed=committed,
            start=str(start),
        )
    return replace(facts, starts=_starts(region, facts, committed))


def _starts(region: Region, facts: Facts, committed: Offsets) -> Offsets:
    match region.pipeline.kafka.start:
        case StartPosition.beginning:
            return facts.log_starts
        case StartPosition.end:
            return facts.ends
        case StartPosition.committed:
            missing = tuple(sorted(facts.ends.keys() - committed.keys()))
            if missing:
                raise NewRegionLacksCommits(
                    region=region.name, group=region.group.group_id, partitions=missing
                )
            return committed
        case FromTimestamp() as moment:
            return region.broker.offsets_at(sorted(facts.ends), moment.milliseconds)
