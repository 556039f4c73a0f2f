"""A region's edges, and where its partitions start when it first opens."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tidemark.connections import Connection, kafka_config, postgres_parameters
from tidemark.errors import Refused
from tidemark.facts import Facts
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.transaction import connect
from tidemark.offsets import Offsets
from tidemark.pipeline import FromTimestamp, Pipeline, StartPosition

Connections = Mapping[str, Connection]

ADOPT_GROUP = "adopt_group"
"""The override that lets a new region replace the commits of its group."""


@dataclass(frozen=True, slots=True)
class Region:
    """The edges of one region: its ledger, its broker and its group."""

    pipeline: Pipeline
    ledger: Ledger
    broker: Broker
    group: Group
    kafka: dict[str, str]

    @property
    def name(self) -> str:
        """The region's name."""
        return self.pipeline.region


@contextmanager
def region_of(pipeline: Pipeline, connections: Connections) -> Iterator[Region]:
    """The region's edges; its Postgres connections are closed at the end."""
    kafka = kafka_config(connections[pipeline.kafka.connection])
    engine = connect(postgres_parameters(connections[pipeline.target.connection]))
    try:
        yield Region(pipeline, Ledger(engine), Broker(kafka), Group(kafka, pipeline.group), kafka)
    finally:
        engine.dispose()


def starting_facts(region: Region, overrides: Sequence[str]) -> Facts:
    """Kafka's facts, with start positions where this is the region's first open.

    Raises:
        Refused: the group has commits that the start position would pass over; or lacks them.
    """
    facts = region.broker.facts(region.pipeline.kafka.topics)
    known = region.ledger.region_state(region.name)
    if known is not None and region.ledger.partitions(region.name):
        return facts
    start = region.pipeline.kafka.start
    committed = region.group.committed(facts.ends)
    if committed and start is not StartPosition.committed and ADOPT_GROUP not in overrides:
        raise Refused(
            f"region {region.name}: group {region.group.group_id} already has commits"
            f" ({', '.join(f'{p}@{o}' for p, o in sorted(committed.items()))}) and the region is"
            f" new with start position {start}. Use start: committed to go on from them, another"
            " kafka.group, or --adopt-group to replace them"
        )
    return replace(facts, starts=_starts(region, facts, committed))


def _starts(region: Region, facts: Facts, committed: Offsets) -> Offsets:
    match region.pipeline.kafka.start:
        case StartPosition.beginning:
            return facts.log_starts
        case StartPosition.end:
            return facts.ends
        case StartPosition.committed:
            missing = sorted(facts.ends.keys() - committed.keys())
            if missing:
                raise Refused(
                    f"region {region.name}: start position is committed, but group"
                    f" {region.group.group_id} has no commit for {', '.join(map(str, missing))}"
                )
            return committed
        case FromTimestamp() as moment:
            return region.broker.offsets_at(sorted(facts.ends), moment.milliseconds)
