"""Offsets for a region that never opened: its group gets them, its first open goes on.

They come from a file, or from the group of another tool that has stopped.

Nothing proves that the rows of what lies before them are anywhere: who exported them knows that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemark.admin.errors import (
    GroupWithoutOffsets,
    ImportIntoUsedGroup,
    ImportOverCommits,
    ImportPassedOver,
    ImportReadsBackOthers,
    ImportTooLate,
    ImportUnfit,
)
from tidemark.kafka.group import Group
from tidemark.ledger.regions import refuse_shared
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.protocol.mirror import differences
from tidemark.runs.region import Region, region_of
from tidemark.settings.endpoints import Connections
from tidemark.settings.exported import ExportedOffsets
from tidemark.settings.kafka import StartPosition
from tidemark.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What the group has, or in a dry run (applied false) would have."""

    region: str
    applied: bool
    group: str
    source: str
    """Where the offsets come from: a region and its checkpoint, or another group."""
    offsets: Offsets
    left: dict[TopicPartition, int]
    """Offsets from there to the end of each log: what the first run has before it."""


def import_offsets(
    pipeline: Pipeline, connections: Connections, exported: ExportedOffsets, *, apply: bool
) -> ImportReport:
    """The group of a region that never opened has the offsets, for `start: committed`.

    If it crashes: the group has all of them or none; the same import again is no error.

    Raises:
        Refused: the region is known, or its file does not begin at its group's offsets; the group
            or table is another region's, somebody is in the group, or it has other commits; or the
            offsets do not mean these topics' records.
        MirrorFailed: Kafka does not read back what was written.
    """
    with region_of(pipeline, connections) as region:
        _refuse_begun(region)
        offsets = exported.by_partition
        facts = region.broker.facts(region.broker.topics(pipeline.kafka.topics))
        faults = *_other_logs(exported, facts), *_not_held(offsets, facts)
        source = f"{exported.region}, checkpoint {exported.seq}"
        return _given(region, facts, offsets, faults, source=source, apply=apply)


def import_from_group(
    pipeline: Pipeline, connections: Connections, group: str, *, apply: bool
) -> ImportReport:
    """The same with the offsets of another tool's group, in which nobody is any more.

    A partition that holds no record needs no offset there. What the tool wrote behind its offsets
    is read again: `tidemark audit` tells of such rows.

    Raises:
        Refused, MirrorFailed: as `import_offsets`; or the tool has not stopped, or has no offsets.
    """
    with region_of(pipeline, connections) as region:
        _refuse_begun(region)
        facts = region.broker.facts(region.broker.topics(pipeline.kafka.topics))
        offsets = group_offsets(region.kafka, group, facts, has_stopped=True)
        high = region.broker.high_watermarks([*facts.ends])
        offsets |= {
            tp: end for tp, end in high.items() if tp not in offsets and end == facts.log_starts[tp]
        }
        faults = tuple(_not_held(offsets, facts))
        return _given(region, facts, offsets, faults, source=f"group {group}", apply=apply)


def offsets_of_group(pipeline: Pipeline, connections: Connections, group: str) -> Offsets:
    """Where another tool's group stands in the pipeline's topics; raises as `group_offsets`."""
    with region_of(pipeline, connections) as region:
        facts = region.broker.facts(region.broker.topics(pipeline.kafka.topics))
        return group_offsets(region.kafka, group, facts)


def group_offsets(
    kafka: Mapping[str, str], name: str, facts: Facts, *, has_stopped: bool = False
) -> Offsets:
    """Where the group stands; nobody joins it.

    Raises:
        Refused: it has no offset of these topics; or it should have stopped, and somebody is in it.
    """
    group = Group(kafka, name)
    try:
        if has_stopped and (holders := group.holders()):
            raise ImportIntoUsedGroup(group=name, holders=tuple(map(str, holders)))
        found = group.committed(facts.ends)
    finally:
        group.close()
    if not found:
        raise GroupWithoutOffsets(group=name, topics=tuple(sorted(facts.topic_ids)))
    return found


def _given(
    region: Region,
    facts: Facts,
    offsets: Offsets,
    faults: Sequence[str],
    *,
    source: str,
    apply: bool,
) -> ImportReport:
    if faults:
        raise ImportUnfit(region=region.name, faults=tuple(faults))
    _refuse_used(region, offsets)
    if apply:
        _write(region, offsets)
    return ImportReport(
        region=region.name,
        applied=apply,
        group=region.group.group_id,
        source=source,
        offsets=offsets,
        left={place: facts.ends[place] - offset for place, offset in offsets.items()},
    )


def _refuse_begun(region: Region) -> None:
    if region.ledger.ledger_is_there():
        refuse_shared(region.name, region.others())
    if region.is_known():
        raise ImportTooLate(region=region.name)
    start = region.pipeline.kafka.start
    if start is not StartPosition.committed:
        raise ImportPassedOver(region=region.name, start=str(start))


def _refuse_used(region: Region, offsets: Offsets) -> None:
    group = region.group
    if holders := group.holders():
        raise ImportIntoUsedGroup(group=group.group_id, holders=tuple(map(str, holders)))
    committed = group.committed(offsets)
    if committed and differences(offsets, committed):
        raise ImportOverCommits(group=group.group_id, committed=committed)


def _other_logs(exported: ExportedOffsets, facts: Facts) -> Iterator[str]:
    """Each reason why the offsets do not count records of these topics."""
    if exported.cluster_id != facts.cluster_id:
        yield f"the file is from cluster {exported.cluster_id}, this is cluster {facts.cluster_id}"
    for topic, topic_id in sorted(exported.topic_ids):
        if facts.topic_ids.get(topic, topic_id) != topic_id:
            yield (
                f"topic {topic} is not the exported one (its id was {topic_id}): it was deleted and"
                " created again, or it is of another cluster"
            )


def _not_held(offsets: Offsets, facts: Facts) -> Iterator[str]:
    """Each partition that has no offset, or one that Kafka does not hold."""
    for place in sorted(facts.ends.keys() ^ offsets.keys()):
        if place in offsets:
            yield f"{place} has an offset, but the topics of kafka.topics have no such partition"
        else:
            yield f"{place} is a partition of kafka.topics, but it has no offset"
    for place in sorted(facts.ends.keys() & offsets.keys()):
        start, end = facts.log_starts[place], facts.ends[place]
        if not start <= offsets[place] <= end:
            yield f"{place} holds offsets {start} to {end}, not {offsets[place]}"


def _write(region: Region, offsets: Offsets) -> None:
    with region.group.writer() as writer:
        writer.commit(offsets, "")
    if drift := differences(offsets, region.group.committed(offsets)):
        raise ImportReadsBackOthers(group=region.group.group_id, drift=tuple(drift))
