"""The region's part of `tidemark check`: whether it could open now."""

from collections.abc import Iterator

from tidemark.cli.findings import Finding, Unknown, Wrong, finding
from tidemark.cli.project import connections_of
from tidemark.errors import TidemarkError
from tidemark.facts import Facts, backlog, check_cluster, check_retained, check_topic_ids
from tidemark.fingerprint import fingerprint
from tidemark.ledger.looks import Looks
from tidemark.opening import changed_fields
from tidemark.pipeline import Pipeline, StartPosition
from tidemark.region import Region, region_of, unsubscribed
from tidemark.state import RegionState


def region_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether Kafka still holds what the ledger needs, or a new region may start as it says."""
    yield finding(f"region {pipeline.region}", lambda: _region(pipeline))


def _region(pipeline: Pipeline) -> str:
    try:
        connections = connections_of(pipeline)
    except TidemarkError:
        raise Unknown("not asked: a connection is missing") from None
    with region_of(pipeline, connections) as region:
        facts = region.broker.facts(region.broker.topics(pipeline.kafka.topics))
        is_there = Looks(region.ledger.engine).is_there()
        state = region.ledger.region_state(region.name) if is_there else None
        return _new(region, facts) if state is None else _known(region, state, facts)


def _new(region: Region, facts: Facts) -> str:
    start, committed = region.pipeline.kafka.start, region.group.committed(facts.ends)
    group = region.group.group_id
    if committed and start is not StartPosition.committed:
        raise Wrong(
            f"is new, starts at {start}, and group {group} already has commits",
            "set kafka.start: committed to go on from them, give the region a kafka.group of its"
            " own, or run once with --adopt-group to replace them",
        )
    missing = sorted(facts.ends.keys() - committed.keys())
    if missing and start is StartPosition.committed:
        raise Wrong(
            f"starts at committed, and group {group} has no commit for"
            f" {', '.join(map(str, missing))}",
            "set kafka.start to another position",
        )
    return f"is new, starts at {start}"


def _known(region: Region, state: RegionState, facts: Facts) -> str:
    partitions = region.ledger.partitions(region.name)
    offsets = {where: one.next_offset for where, one in partitions.items()}
    if state.group_id != region.group.group_id:
        raise Wrong(
            f"belongs to consumer group {state.group_id}, the pipeline says"
            f" {region.group.group_id}",
            f"set kafka.group: {state.group_id}",
        )
    _openable(region.pipeline, state)
    check_cluster(region.name, state.cluster_id, facts)
    left = unsubscribed(region, partitions)
    read = {at: one for at, one in partitions.items() if at.topic not in left}
    check_topic_ids(region.name, ((at.topic, p.topic_id) for at, p in read.items()), facts)
    check_retained(region.name, {at: p.next_offset for at, p in read.items()}, facts)
    to_read = backlog(offsets, facts.ends)
    return (
        f"epoch {state.epoch}, head {state.head_seq}; Kafka holds all from there, {to_read} offsets"
    )


def _openable(pipeline: Pipeline, state: RegionState) -> None:
    """What open would refuse of the region itself."""
    changes = [*changed_fields(state.fingerprint, fingerprint(pipeline))]
    if changes:
        raise Wrong(
            f"{'; '.join(changes)}: the checkpoint was made with the former",
            "put it back, name a new region for the change, or run once with --accept-changes",
        )
    if state.consecutive_resets >= pipeline.max_consecutive_resets:
        raise Wrong(
            f"{state.consecutive_resets} runs in a row were reset and published nothing,"
            f" max_consecutive_resets is {pipeline.max_consecutive_resets}",
            f"find out why, then tidemark reset {pipeline.region} --apply",
        )
