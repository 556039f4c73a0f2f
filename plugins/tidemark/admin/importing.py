"""Offsets from a file for a region that never opened: its group gets them, its first open goes on.

Nothing proves that the rows of what lies before them are anywhere: who exported them knows that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.admin.errors import (
    ImportIntoUsedGroup,
    ImportOverCommits,
    ImportPassedOver,
    ImportReadsBackOthers,
    ImportTooLate,
    ImportUnfit,
)
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
    """The region and the checkpoint that the offsets come from."""
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
        if faults := tuple(_faults(exported, facts)):
            raise ImportUnfit(region=region.name, faults=faults)
        _refuse_used(region, offsets)
        if apply:
            _write(region, offsets)
        source = f"{exported.region}, checkpoint {exported.seq}"
        left = {place: facts.ends[place] - offset for place, offset in offsets.items()}
        return ImportReport(
            region=region.name,
            applied=apply,
            group=region.group.group_id,
            source=source,
            offsets=offsets,
            left=left,
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


def _faults(exported: ExportedOffsets, facts: Facts) -> Iterator[str]:
    """Each reason why the offsets do not mean records of these topics."""
    if exported.cluster_id != facts.cluster_id:
        yield f"the file is from cluster {exported.cluster_id}, this is cluster {facts.cluster_id}"
    for topic, topic_id in sorted(exported.topic_ids):
        if facts.topic_ids.get(topic, topic_id) != topic_id:
            yield (
                f"topic {topic} is not the exported one (its id was {topic_id}): it was deleted and"
                " created again, or it is of another cluster"
            )
    offsets = exported.by_partition
    for place in sorted(facts.ends.keys() ^ offsets.keys()):
        if place in offsets:
            yield f"{place} is in the file, but the topics of kafka.topics have no such partition"
        else:
            yield f"{place} is a partition of kafka.topics, but it is not in the file"
    for place in sorted(facts.ends.keys() & offsets.keys()):
        start, end = facts.log_starts[place], facts.ends[place]
        if not start <= offsets[place] <= end:
            yield f"{place} holds offsets {start} to {end}, not {offsets[place]}"


def _write(region: Region, offsets: Offsets) -> None:
    with region.group.writer() as writer:
        writer.commit(offsets, "")
    if drift := differences(offsets, region.group.committed(offsets)):
        raise ImportReadsBackOthers(group=region.group.group_id, drift=tuple(drift))
