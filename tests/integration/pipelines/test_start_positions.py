"""Where a partition starts: the beginning, the end, commits, a time; and what comes later."""

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.produce import good, numbered, produce
from tests.support.topics import add_partitions
from tests.support.world import World, everything

from tidemark.check._job import region_findings
from tidemark.check.findings import State
from tidemark.model.offsets import Span
from tidemark.runs.errors import NewRegionCommitsTooFar, NewRegionHasCommits, NewRegionLacksCommits


def test_partitions_added_later_start_at_the_beginning(world: World, admin: AdminClient) -> None:
    """H19: whatever the start position of the first open was."""
    world.settings = {"kafka": {"start": "end"}}
    world.produce(3)
    world.run("first")
    assert world.sql("SELECT count(*) FROM tidemark.batches") == [(0,)]
    add_partitions(admin, world.topic, 3)
    produce(world.kafka, world.topic, numbered(2), partition=2)
    world.run("second")
    assert world.rows() == [(2, 0), (2, 1)]


def test_a_start_at_the_end_is_taken_once(world: World) -> None:
    """H19: a crash before the first read does not move it."""
    world.settings = {"kafka": {"start": "end"}}
    world.produce(3)
    world.open("first")
    world.produce(2, start=3)
    world.run("second")
    assert world.rows() == [(0, 3), (0, 4)]
    initial = "SELECT initial_offset FROM tidemark.partitions WHERE partition = 0"
    assert world.sql(initial) == [(3,)]


@pytest.mark.long
def test_a_start_at_the_beginning_is_the_log_start(world: World, admin: AdminClient) -> None:
    """S5, S12."""
    world.produce(5)
    where = KafkaPartition(world.topic, 0, 2)
    admin.delete_records([where])[where].result(120)
    world.run()
    assert world.rows() == [(0, 2), (0, 3), (0, 4)]


def test_a_start_at_a_time_that_retention_has_passed_is_told(
    world: World, admin: AdminClient
) -> None:
    """G153: the first record that is left comes later, and some before it may be gone."""
    world.settings = {"kafka": {"start": {"timestamp": "2020-01-01T00:00:00Z"}}}
    world.produce(5)
    world.produce(5, 1)
    where = KafkaPartition(world.topic, 0, 2)
    admin.delete_records([where])[where].result(120)
    [told] = world.open().remarks
    assert told.startswith(f"{Span(world.topic, 0, 0, 2)}: retention took it before anybody read")
    assert told.endswith("begins at 2")


@pytest.mark.long
def test_a_start_from_commits_goes_on_from_them(world: World) -> None:
    """S5."""
    world.settings = {"kafka": {"start": "committed"}}
    world.produce(5)
    with world.group.writer() as writer:
        writer.commit({world.partition(0): 2, world.partition(1): 0}, "")
    world.run()
    assert world.rows() == [(0, 2), (0, 3), (0, 4)]


def test_a_start_from_commits_beyond_the_end_is_refused(world: World) -> None:
    """S5, G85: up to there every record would be passed over, and the run be green."""
    world.settings = {"kafka": {"start": "committed"}}
    world.produce(5)
    at, beyond = world.partition(0), {world.partition(0): 6, world.partition(1): 0}
    with world.group.writer() as writer:
        writer.commit(beyond, "")
    with pytest.raises(NewRegionCommitsTooFar) as refused:
        world.open()
    assert (refused.value.ends, refused.value.committed) == ({at: 5}, {at: 6})
    (found,) = region_findings(world.pipeline, world.connections.__getitem__)
    assert (found.state, found.fact) == (State.failed, str(refused.value))
    assert not world.ledger().known_region(world.region)
    with world.group.writer() as writer:
        writer.commit(beyond | {at: 5}, "")
    world.run()


@pytest.mark.long
def test_a_start_from_commits_refuses_where_there_is_none(world: World) -> None:
    world.settings = {"kafka": {"start": "committed"}}
    with world.group.writer() as writer:
        writer.commit({world.partition(0): 0}, "")
    with pytest.raises(NewRegionLacksCommits) as refused:
        world.open()
    assert refused.value.partitions == (world.partition(1),)


def test_a_start_from_a_time_reads_what_came_at_or_after_it(world: World) -> None:
    producer = Producer({"bootstrap.servers": world.kafka})
    for number in range(4):
        moment = 1_700_000_000_000 + number * 60_000
        producer.produce(world.topic, good("v"), partition=0, timestamp=moment)
    producer.flush(120)
    world.settings = {"kafka": {"start": {"timestamp": "2023-11-14T22:15:20Z"}}}
    world.run()
    assert world.rows() == [(0, 2), (0, 3)]


@pytest.mark.long
def test_a_group_with_commits_is_not_passed_over_unasked(world: World) -> None:
    world.produce(3)
    with world.group.writer() as writer:
        writer.commit({world.partition(0): 2}, "")
    with pytest.raises(NewRegionHasCommits) as refused:
        world.open()
    assert refused.value.committed == {world.partition(0): 2}
    world.overrides = ("adopt_group",)
    world.run()
    assert world.rows() == everything([3])
    assert world.sql("SELECT overrides FROM tidemark.runs") == [(["adopt_group"],)]
