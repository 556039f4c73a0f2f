"""A coordinator's broker, or every broker, goes away: members and mirror go on where they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from tests.support.cluster import NODES, Cluster
from tests.support.members import Told, partitions, share
from tests.support.produce import good
from tests.support.waiting import until
from tests.support.world import World

from tidemark import failpoints
from tidemark.errors import Unreachable
from tidemark.kafka.errors import OffsetNotHeld
from tidemark.kafka.facts import Broker
from tidemark.kafka.group import Group
from tidemark.kafka.member import Event, Member
from tidemark.model.batch import Checkpoint
from tidemark.model.membership import Membership
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.protocol.mirror import mirror


class FixedLedger:
    """A ledger whose merged checkpoint is always the same."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets

    def merged_checkpoint(self, region: str, at: int | None = None) -> Checkpoint:
        return Checkpoint(region, epoch=1, seq=5, offsets=self._offsets)


def mirrored(offsets: Offsets, group: Group) -> Checkpoint:
    """A mirror asks no more of a ledger if there is no output."""
    return mirror(FixedLedger(offsets), group, "r", 1)  # type: ignore[arg-type]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


@pytest.fixture
def config(cluster: Cluster) -> dict[str, str]:
    """The connection to three brokers, all of which run."""
    cluster.start()
    return {"bootstrap.servers": cluster.bootstrap}


@pytest.fixture
def observed(config: dict[str, str], group: str) -> Group:
    """The group as the admin client sees it."""
    return Group(config, group)


@pytest.fixture
def whole(config: dict[str, str], cluster: Cluster) -> frozenset[TopicPartition]:
    """All eight partitions of a topic."""
    return partitions(cluster.topic(f"t-{uuid4().hex[:12]}", 8), 8)


@contextmanager
def member(
    config: dict[str, str], group: str, whole: frozenset[TopicPartition], number: int, seconds: int
) -> Iterator[Member]:
    """A member that bears so many seconds of silence."""
    topics = sorted({partition.topic for partition in whole})
    membership = Membership(session_timeout_ms=seconds * 1000)
    with Member(
        config, group, topics, f"tidemark-{group}-{number}", membership=membership
    ) as joined:
        yield joined


@pytest.mark.long
def test_members_join_though_their_coordinators_broker_dies_meanwhile(
    cluster: Cluster, config: dict[str, str], group: str, whole: frozenset[TopicPartition]
) -> None:
    """S21: before the group is stable; one member in it, one on its way."""
    with member(config, group, whole, 1, 10) as first:
        until(first.assigned)
        with member(config, group, whole, 2, 10) as second:
            cluster.stop(cluster.coordinator_of(group))
            until(lambda: share([first, second], whole))


def test_a_member_keeps_its_partitions_while_its_coordinator_fails_over(
    cluster: Cluster,
    config: dict[str, str],
    group: str,
    whole: frozenset[TopicPartition],
    observed: Group,
    told: Told,
) -> None:
    """S26: the batch that it drains need not stop, and its mirror is written at once."""
    with member(config, group, whole, 1, 20) as one:
        until(lambda: one.assigned() == whole)
        [before] = observed.holders()
        node = cluster.coordinator_of(group)
        cluster.stop(node)
        mirrored(dict.fromkeys(whole, 3), observed)
        assert cluster.coordinator_of(group) in {*NODES} - {node}
        assert Broker(config).facts(sorted({p.topic for p in whole})).ends.keys() == whole
        assert observed.holders() == [before]
        assert told.by(one) == [Event.ASSIGNED]
        assert (one.assigned(), one.lost_partitions(whole)) == (whole, frozenset())


@pytest.mark.long
def test_a_member_tries_round_and_round_while_all_brokers_are_away(
    cluster: Cluster,
    config: dict[str, str],
    group: str,
    whole: frozenset[TopicPartition],
    observed: Group,
    told: Told,
) -> None:
    """S25: a named event each round; nothing fails, and what was mirrored stands."""
    with observed.writer() as writer:
        writer.commit(dict.fromkeys(whole, 7), "r/1/1")
    with member(config, group, whole, 1, 4) as one:
        until(lambda: one.assigned() == whole)
        cluster.stop()
        until(lambda: told.by(one).count(Event.ALL_BROKERS_DOWN) >= 2)
        until(lambda: Event.SESSION_TIMED_OUT in told.by(one))
        assert one.lost_partitions(whole) == whole
        cluster.start()
        until(lambda: one.assigned() == whole)
        until(lambda: {p for h in observed.holders() for p in h.partitions} == whole)
        assert one.lost_partitions(whole) == frozenset()
    assert observed.committed_metadata(whole) == dict.fromkeys(whole, (7, "r/1/1"))


@pytest.mark.long
def test_a_mirror_lands_whole_though_the_groups_coordinator_dies_in_it(
    cluster: Cluster,
    group: str,
    whole: frozenset[TopicPartition],
    observed: Group,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S26: between the sending of the offsets and the commit of their transaction."""
    with observed.writer() as writer:
        writer.commit(dict.fromkeys(whole, 1), "r/1/4")
    lost = [cluster.coordinator_of(group)]

    def crash(name: str) -> None:
        if name == "mirror.sent" and lost:
            cluster.stop(lost.pop())

    monkeypatch.setattr(failpoints, "hit", crash)
    offsets = {partition: partition.partition * 10 for partition in whole}
    assert mirrored(offsets, observed).offsets == offsets
    assert not lost
    assert observed.committed_metadata(whole) == {
        partition: (offset, "r/1/5") for partition, offset in offsets.items()
    }


@pytest.mark.long
def test_an_unclean_election_that_took_records_away_stops_the_run(
    cluster: Cluster, config: dict[str, str], group: str, warehouse: dict[str, Any]
) -> None:
    """B7, H14: the log has grown past the ledger's offset again, with other records."""
    first, second = 1, 2
    topic = cluster.unclean_topic(f"t-{uuid4().hex[:12]}", first, second)
    world = World(cluster.bootstrap, warehouse, topic, group)
    world.produce(5)
    world.run("both have these")
    cluster.stop(second)
    world.produce(5, start=5)
    world.run("only the first has these")
    cluster.stop(first)
    cluster.start(second)
    until(lambda: cluster.leader_of(world.partition()) == second)
    world.produce(20, start=100)
    until(lambda: opens(world, "after"))
    with pytest.raises(OffsetNotHeld) as lost:
        world.drain("after")
    assert (lost.value.topic_partition, lost.value.offset) == (world.partition(), 10)
    assert [offset for _, offset in world.rows()] == list(range(10))


@pytest.mark.long
def test_a_commit_marker_of_a_newer_leader_is_no_lost_data(
    cluster: Cluster, config: dict[str, str], group: str, warehouse: dict[str, Any]
) -> None:
    """B7: the epoch of the last record says nothing of the marker behind it."""
    world = World(cluster.bootstrap, warehouse, cluster.topic(f"t-{uuid4().hex[:12]}", 1), group)
    producer = Producer(config | {"transactional.id": world.topic})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(world.topic, good("before"), partition=0)
    assert producer.flush(120) == 0
    leader = cluster.leader_of(world.partition())
    cluster.stop(leader)
    until(lambda: cluster.leader_of(world.partition()) not in {leader, -1})
    producer.commit_transaction(120)
    cluster.start(leader)
    world.run("ends behind the marker")
    assert world.ledger_offsets() == {world.partition(): 2}
    world.produce(3)
    world.run("after")
    assert [offset for _, offset in world.rows()] == [0, 2, 3, 4]


def opens(world: World, run_id: str) -> bool:
    """Whether the open task ends well; Airflow tries it again while coordinators fail over."""
    try:
        assert world.open(run_id).backlog == 15
    except Unreachable:
        return False
    return True
