"""The region's part of `tidemark check`: whether it could open now."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from tidemark.cli.findings import Finding, Unknown, Wrong, finding
from tidemark.cli.project import connections_of
from tidemark.errors import TidemarkError
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.owners import refuse_shared
from tidemark.model.amount import amount
from tidemark.model.facts import backlog
from tidemark.model.offsets import TopicPartition, in_ranges
from tidemark.model.state import Partition, RegionState
from tidemark.operations.open import open_request
from tidemark.operations.opening_facts import opening_facts
from tidemark.operations.region import Region, region_of
from tidemark.operations.schemas import taken
from tidemark.settings.kafka import StartPosition
from tidemark.settings.pipeline import Pipeline


def region_findings(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether Kafka still holds what the ledger needs, or a new region may start as it says."""
    yield finding(f"region {pipeline.region}", lambda: _region(pipeline))


def _region(pipeline: Pipeline) -> str:
    try:
        connections = connections_of(pipeline)
    except TidemarkError:
        raise Unknown("not asked: a connection is missing") from None
    with region_of(pipeline, connections) as opened:
        region = opened
        if region.ledger.ledger_is_there():
            refuse_shared(region.name, region.others())
        state = region.ledger.known_region(region.name)
        found = taken(pipeline, connections, state)
        region = replace(region, pipeline=found.pipeline)
        told = _new(region) if state is None else _known(region, state, found.added)
        return "; ".join((told, *found.remarks))


def _new(region: Region) -> str:
    facts = region.broker.facts(region.broker.topics(region.pipeline.kafka.topics))
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
            f"starts at committed, and group {group} has no commit for {in_ranges(missing)}",
            "use another value of kafka.start",
        )
    return f"is new, starts at {start}"


def _known(region: Region, state: RegionState, added: frozenset[str]) -> str:
    if state.group_id != region.group.group_id:
        raise Wrong(
            f"belongs to consumer group {state.group_id}, the pipeline says"
            f" {region.group.group_id}",
            f"set kafka.group: {state.group_id}, or carry the region over: tidemark region move",
        )
    facts, partitions = opening_facts(region, ()), region.ledger.partitions(region.name)
    request = replace(
        open_request(region, "check", region.pipeline.batch.bounds(), facts, state.epoch),
        added=added,
    )
    request.check(Looked(state, partitions, region.ledger))
    to_read = backlog({at: one.next_offset for at, one in partitions.items()}, facts.ends)
    return (
        f"epoch {state.epoch}, head {state.head_seq}; Kafka holds all from there,"
        f" {amount(to_read, 'offset')}"
    )


@dataclass(frozen=True, slots=True)
class Looked:
    """The region as a look found it, without lock."""

    state: RegionState
    known: dict[TopicPartition, Partition]
    ledger: Ledger

    def partitions(self) -> dict[TopicPartition, Partition]:
        """Every partition of the region."""
        return self.known

    def target_oid(self, target: str) -> int | None:
        """The table that bears a target's name."""
        return self.ledger.target_oid(target)

    def key_forms(self, target: str, columns: Collection[str]) -> Mapping[str, str]:
        """The form of the texts of these columns."""
        return self.ledger.key_forms(target, columns)
