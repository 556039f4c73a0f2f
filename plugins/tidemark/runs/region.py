"""A region with what it works with, and how its mirror stands."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import psycopg2
from confluent_kafka import KafkaException

from tidemark.errors import Unreachable
from tidemark.kafka.config import kafka_config
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.ledger.errors import RegionNeverOpened
from tidemark.ledger.ledger import Ledger
from tidemark.model.facts import Facts, takes_in
from tidemark.model.offsets import Offsets, TopicPartition, without
from tidemark.model.state import NEVER_MIRRORED, Mirrored, Owner, Partition, RegionState
from tidemark.postgres.parameters import postgres_parameters
from tidemark.postgres.transaction import connect
from tidemark.protocol.mirror import differences
from tidemark.runs._output import output_of
from tidemark.runs.errors import ConnectionUnreachable, TasksReadOtherTopics
from tidemark.runs.schemas import kept
from tidemark.settings.connections import Connection
from tidemark.settings.endpoints import Connections, Endpoints
from tidemark.settings.errors import ConnectionIncomplete
from tidemark.settings.pipeline import Pipeline
from tidemark.staging.target import Target

if TYPE_CHECKING:
    from tidemark.spark.specs import JobSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Region:
    """One region: its pipeline, and what that and its connections have become."""

    pipeline: Pipeline
    ledger: Ledger
    broker: Broker
    group: Group
    kafka: dict[str, str]
    endpoints: Endpoints
    writer: str | None = None
    """The role of Spark's tasks in Postgres, where that is not the drivers' own."""

    @property
    def name(self) -> str:
        """The region's name."""
        return self.pipeline.region

    @property
    def targets(self) -> tuple[Target, ...]:
        """The tables of its rows."""
        return tuple(Target.parse(table, name) for name, table in self.pipeline.tables.items())

    def state(self) -> RegionState:
        """Where the region stands in the ledger.

        Raises:
            Refused: it never opened.
        """
        state = self.ledger.known_region(self.name)
        if state is None:
            raise RegionNeverOpened(region=self.name)
        return state

    def with_kept_columns(self) -> "Region":
        """The region with the columns that its newest open has kept.

        Raises:
            Refused: it never opened, or kept none; see `kept`.
        """
        return replace(self, pipeline=kept(self.pipeline, self.state()))

    def job_spec(self, member: int = 0) -> "JobSpec":
        """What the jobs of a member's batches are made of.

        Raises:
            InvalidSettings: see `read_spec`.
            Refused: the tasks' Kafka has other topics of these names.
        """
        from tidemark.spark.specs import job_spec  # Arrow: a run without a backlog needs none

        self._refuse_other_topics()
        return job_spec(self.pipeline, self.endpoints, member)

    def _refuse_other_topics(self) -> None:
        """What tasks read must be what was planned: the topics of the driver's own Kafka."""
        of_tasks = self.endpoints.executors_kafka
        if of_tasks is None:
            return
        topics = self.broker.topics(self.pipeline.kafka.topics)
        planned, read = (
            broker.topic_ids(topics) for broker in (self.broker, Broker(kafka_config(of_tasks)))
        )
        if read != planned:
            raise TasksReadOtherTopics(
                region=self.name,
                conn_id=of_tasks.conn_id,
                own=self.endpoints.kafka.conn_id,
                topics=tuple(topic for topic in topics if read[topic] != planned[topic]),
            )

    def others(self) -> tuple[Owner, ...]:
        """Other regions that have its group or one of its tables."""
        pipeline = self.pipeline
        return self.ledger.others_of(self.name, pipeline.group, pipeline.tables.values())

    def known_partitions(self) -> dict[TopicPartition, Partition]:
        """The ledger's partitions; none before the region's first open."""
        return self.ledger.partitions(self.name) if self.is_known() else {}

    def is_known(self) -> bool:
        """Whether it has opened."""
        return self.ledger.known_region(self.name) is not None


@contextmanager
def region_of(pipeline: Pipeline, connections: Connections) -> Iterator[Region]:
    """The region; its Postgres connections and the group's clients are closed at the end."""
    endpoints = Endpoints.of(pipeline, connections)
    kafka, writer = kafka_config(endpoints.kafka), _writer(endpoints)
    engine = connect(postgres_parameters(endpoints.warehouse))
    output = output_of(pipeline, endpoints.registries, engine, kafka)
    group = Group(kafka, pipeline.group, output)
    try:
        with named(endpoints.kafka, endpoints.warehouse):
            yield Region(
                pipeline=pipeline,
                ledger=Ledger(engine),
                broker=Broker(kafka),
                group=group,
                kafka=kafka,
                endpoints=endpoints,
                writer=writer,
            )
    finally:
        group.close()
        engine.dispose()


@contextmanager
def ledger_of(warehouse: Connection) -> Iterator[Ledger]:
    """The ledger of a connection, for what needs no pipeline file."""
    engine = connect(postgres_parameters(warehouse))
    try:
        with named(warehouse, warehouse):
            yield Ledger(engine)
    finally:
        engine.dispose()


@contextmanager
def named(brokers: Connection, warehouse: Connection) -> Iterator[None]:
    """Inside, what can't be reached is named by its connection as well."""
    try:
        yield
    except Unreachable as error:
        found = None
        if isinstance(error.__cause__, psycopg2.Error):
            found = warehouse
        elif isinstance(error.__cause__, (KafkaException, TimeoutError)):
            found = brokers
        if found is None or found.place in str(error):
            raise
        raise ConnectionUnreachable(place=found.place, cause=str(error)) from error


def _writer(endpoints: Endpoints) -> str | None:
    """The role of Spark's tasks in Postgres; None where it is the drivers' own."""
    if (tasks := endpoints.executors_warehouse) is None:
        return None
    if not tasks.login:
        raise ConnectionIncomplete(
            conn_id=tasks.conn_id,
            missing="login",
            remedy="as executors.warehouse it needs one, to which the driver grants INSERT on its"
            " staging tables",
        )
    return tasks.login


def unsubscribed(region: Region, known: Iterable[TopicPartition]) -> frozenset[str]:
    """Topics that the ledger knows and the pipeline no longer reads: they stay where they stand."""
    topics = region.pipeline.kafka.topics
    return frozenset(tp.topic for tp in known if not takes_in(topics, tp.topic))


@dataclass(frozen=True, slots=True)
class MirrorSeen:
    """The mirror in Kafka beside the ledger."""

    drift: tuple[str, ...]
    """Where it differs, one text a partition; or why that is unknown."""
    mirrored: Mirrored
    """The newest epoch and seq that it was written under; 0 where unknown."""


def mirror_seen(region: Region, offsets: Offsets) -> MirrorSeen:
    """How the mirror stands; one that died in its commit hides that, which must stop nobody."""
    try:
        found = region.group.committed_metadata(offsets)
    except Unreachable as error:
        log.warning("the epoch of Kafka's group offsets is unknown: %s", error)
        return MirrorSeen((str(error),), NEVER_MIRRORED)
    drift = drift_of(region, offsets, {tp: offset for tp, (offset, _) in found.items()})
    marks = [Mirrored.parse(metadata) for _, metadata in found.values()]
    epoch = max((mark.epoch for mark in marks), default=0)
    seq = max((mark.seq for mark in marks), default=0)
    sent_seq = max((mark.sent_seq for mark in marks), default=0)
    return MirrorSeen(drift, Mirrored(epoch, seq, sent_seq))


def drift_of(region: Region, ledger: Offsets, kafka: Offsets) -> tuple[str, ...]:
    """Where Kafka differs; a topic that it no longer has can't: it keeps no offsets for that."""
    if not differences(ledger, kafka):
        return ()
    return tuple(differences(without(topics_gone(region, ledger), ledger), kafka))


def topics_gone(region: Region, known: Iterable[TopicPartition]) -> frozenset[str]:
    """Those of the known topics that Kafka no longer has."""
    return region.broker.gone({tp.topic for tp in known})


def facts_left(broker: Broker, topics: Iterable[str]) -> Facts:
    """Kafka's facts of those topics that still exist."""
    asked = frozenset(topics)
    left = sorted(asked - broker.gone(asked))
    return broker.facts(left) if left else Facts("", {}, {}, {})
