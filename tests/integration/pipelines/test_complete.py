"""What "complete at" says where a region is not all of its topics for ever."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.support.documents import documented
from tests.support.produce import produce
from tests.support.topics import create_topic
from tests.support.world import World

from tidemark.model.overrides import ACCEPT_CHANGES, ACCEPT_DATA_LOSS

Topic = Callable[..., str]


def complete_at(world: World) -> datetime | None:
    [(found,)] = world.sql("SELECT complete_at FROM tidemark.completeness")
    assert found is None or isinstance(found, datetime)
    return found


def asked(world: World) -> list[datetime]:
    return [at for (at,) in world.sql("SELECT asked_at FROM tidemark.runs ORDER BY epoch")]


def reads(world: World, *topics: str, **kafka: Any) -> None:
    world.settings["kafka"] = {"topics": list(topics), **kafka}


def test_a_partition_that_appears_counts_from_the_open_that_sees_it(
    world: World, admin: AdminClient
) -> None:
    """B27"""
    world.produce(2)
    world.run("first")
    admin.create_partitions([NewPartitions(world.topic, 3)])[world.topic].result(60)
    world.produce(2, partition=2)
    assert complete_at(world) == asked(world)[0]
    world.open("sees it")
    assert complete_at(world) == asked(world)[0]
    world.drain("sees it")
    assert complete_at(world) == asked(world)[1]


def test_a_topic_that_a_pattern_finds_counts_from_the_open_that_sees_it(
    world: World, admin: AdminClient
) -> None:
    """B27"""
    reads(world, f"^{world.topic}.*")
    world.produce(1)
    world.run("first")
    other = f"{world.topic}-later"
    create_topic(admin, NewTopic(other, 1, 1))
    produce(world.kafka, other, [b'{"value": "x"}'])
    assert complete_at(world) == asked(world)[0]
    world.open("sees it")
    assert complete_at(world) == asked(world)[0]
    world.drain("sees it")
    assert (complete_at(world), len(world.rows())) == (asked(world)[1], 2)


def test_a_topic_that_is_no_longer_read_no_longer_counts(world: World, topic: Topic) -> None:
    """B27: what it held and nobody read is accepted, or the run does not open."""
    other = topic()
    reads(world, world.topic, other)
    world.produce(1)
    produce(world.kafka, other, [b'{"value": "x"}'])
    world.run("both")
    produce(world.kafka, other, [b'{"value": "y"}'])
    world.open("sees it")
    assert complete_at(world) == asked(world)[0]
    reads(world, world.topic)
    world.overrides = (ACCEPT_CHANGES, ACCEPT_DATA_LOSS)
    world.run("one")
    assert complete_at(world) == asked(world)[-1]


def test_what_lies_before_the_start_was_never_the_regions(world: World) -> None:
    """B27: `start: end`."""
    reads(world, world.topic, start="end")
    world.produce(5)
    world.run("first")
    assert complete_at(world) == asked(world)[0]
    assert world.sql("SELECT head_seq FROM tidemark.regions") == [(0,)]


def test_the_documented_test_of_freshness_fails_for_a_region_that_never_opened(
    world: World,
) -> None:
    """B27: no row would mean that all is well."""
    fails = documented("HAVING coalesce").replace("flights", world.region)
    assert world.sql(fails) == [(None,)]
    world.produce(1)
    world.run()
    assert world.sql(fails) == []


def test_a_run_that_its_bound_ends_before_moves_nothing(world: World) -> None:
    """B27: the run is done, and has not read all that it saw."""
    world.produce(2)
    world.run("first")
    world.produce(10, start=2)
    world.run("bounded", max_records=4, max_batches=1)
    assert (complete_at(world), len(world.rows())) == (asked(world)[0], 6)
    world.run("rest")
    assert complete_at(world) == asked(world)[2]
