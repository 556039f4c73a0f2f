"""Lag and drift of many regions now: each Kafka cluster is asked once for all of them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from time import time  # noqa: TID251 - an age is shown, nothing is decided by it

from tidemark.errors import InvalidSettings, Refused, TidemarkError
from tidemark.kafka.config import kafka_config
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.model.facts import Facts
from tidemark.model.offsets import Offsets
from tidemark.model.topics import is_pattern
from tidemark.operations.region import facts_left
from tidemark.operations.status import PartitionStatus, place, total
from tidemark.operations.unread import oldest_age
from tidemark.page.given import PATIENCE, Given, connection
from tidemark.page.seen import SeenRegion
from tidemark.settings.kafka import KafkaSettings, StartPosition

_SIDE_BY_SIDE = 8


@dataclass(frozen=True, slots=True)
class Lag:
    """What Kafka says of a region beside its ledger."""

    lag: int | None = None
    """Offsets that the ledger has not passed."""
    worst: str | None = None
    """The partition with the largest lag."""
    oldest_age: float | None = None
    """Seconds since the oldest unread record was produced."""
    drifting: int | None = None
    """Partitions whose offset in Kafka is not the ledger's."""
    problem: str | None = None


def lags(
    regions: Iterable[tuple[SeenRegion, Offsets]], given: Given
) -> list[tuple[SeenRegion, Lag]]:
    """Each region with its lag; a cluster that does not answer is asked once."""
    clusters: dict[str, list[tuple[SeenRegion, Offsets]]] = {}
    for seen, offsets in regions:
        clusters.setdefault(seen.pipeline.kafka.connection, []).append((seen, offsets))
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = pool.map(lambda one: list(_of_cluster(one[0], one[1], given)), clusters.items())
        return [one for of_cluster in found for one in of_cluster]


def _of_cluster(
    conn_id: str, wanted: list[tuple[SeenRegion, Offsets]], given: Given
) -> Iterator[tuple[SeenRegion, Lag]]:
    try:
        config = kafka_config(connection(given, conn_id))
        broker = Broker(config)
        broker.ping(PATIENCE)
        facts = _facts(broker, wanted)
    except TidemarkError as error:
        yield from ((seen, Lag(problem=f"{error.code}: {error}")) for seen, _ in wanted)
        return
    cluster = _Cluster(config, broker, facts)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = pool.map(lambda one: _lag(cluster, *one), wanted)
        yield from zip((seen for seen, _ in wanted), found, strict=True)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A Kafka cluster that has answered, and where the logs of all regions begin and end."""

    config: dict[str, str]
    broker: Broker
    facts: Facts


def _facts(broker: Broker, wanted: list[tuple[SeenRegion, Offsets]]) -> Facts:
    """Of the topics in the ledgers, and of those that regions without offsets are going to read."""
    known = {at.topic for _, offsets in wanted for at in offsets}
    fresh = {one for seen, offsets in wanted if not offsets for one in seen.pipeline.kafka.topics}
    named = {topic for topic in fresh if not is_pattern(topic)}
    with suppress(Refused, InvalidSettings):  # a new region's topic hides no other region's lag
        return facts_left(broker, known | named)
    return facts_left(broker, known)


def _unopened(facts: Facts, settings: KafkaSettings) -> Lag:
    """What the first run is going to read, where it reads named topics from their beginning.

    A pattern is its author's, and may take for ever: none is matched where all regions wait.
    """
    if any(map(is_pattern, settings.topics)):
        return Lag()
    found = {at: end for at, end in facts.ends.items() if at.topic in settings.topics}
    if settings.start is not StartPosition.beginning or not found:
        return Lag()
    return Lag(sum(end - facts.log_starts[at] for at, end in found.items()))


def _lag(cluster: _Cluster, seen: SeenRegion, ledger: Offsets) -> Lag:
    if not ledger:
        return _unopened(cluster.facts, seen.pipeline.kafka)
    ends = cluster.facts.ends
    known = [PartitionStatus(*at, offset, None, ends.get(at)) for at, offset in ledger.items()]
    worst = max(known, key=lambda one: one.lag or 0)
    oldest = oldest_age(cluster.broker, known, int(time() * 1000))
    found = Lag(total(one.lag for one in known), place(worst), oldest)
    group = Group(cluster.config, seen.pipeline.group)
    try:
        committed = group.committed(ledger)
        drifting = sum(committed.get(at) != offset for at, offset in ledger.items() if at in ends)
        return replace(found, drifting=drifting)
    except TidemarkError as error:
        return replace(found, problem=f"{error.code}: {error}")
    finally:
        group.close()
