"""Which checkpoint a time means, and where Kafka no longer tells (G154)."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.produce import good
from tests.support.topics import create_again
from tests.support.waiting import until
from tests.support.world import World

from tidemark.admin import moment as moment_module
from tidemark.admin.errors import RewindTimeUnknown, RewindTooFar
from tidemark.admin.moment import seq_of
from tidemark.kafka.retention import Retention
from tidemark.model.offsets import Span
from tidemark.page.answers import dry_run
from tidemark.page.seen import SeenRegion
from tidemark.runs.region import region_of
from tidemark.settings.described import Described, Role

TOLD = ("accept_data_loss",)


def now() -> datetime:
    """A time between two records, by the clock that stamps them."""
    made = time.time_ns() // 1_000_000
    until(lambda: time.time_ns() // 1_000_000 > made + 1, pause=0.001)
    return datetime.fromtimestamp((made + 1) / 1000, UTC)


@pytest.fixture
def moment(world: World) -> datetime:
    """After the records of batch 1, before those of 2 and 3."""
    world.produce(10)
    world.run("one")
    found = now()
    for number in (10, 20):
        world.produce(10, start=number)
        world.run(f"from {number}")
    assert world.reset(apply=False, to=found).to_seq == 1
    return found


def published_at(world: World, seq: int) -> datetime:
    [(found,)] = world.sql("SELECT published_at FROM tidemark.batches WHERE seq = %s", [seq])
    assert isinstance(found, datetime)
    return found


def delete_up_to(admin: AdminClient, world: World, offset: int) -> None:
    where = KafkaPartition(world.topic, 0, offset)
    admin.delete_records([where])[where].result(120)


def refused(world: World, to: datetime) -> RewindTimeUnknown:
    """In a dry run and in earnest, and nothing has changed."""
    found = []
    before = world.rows()
    for apply in (False, True):
        with pytest.raises(RewindTimeUnknown) as error:
            world.reset(apply=apply, to=to)
        found.append(error.value)
    assert world.rows() == before
    return found[-1]


def test_a_time_that_retention_has_passed_is_refused_with_the_oldest_that_is_told(
    world: World, moment: datetime, admin: AdminClient
) -> None:
    """Kafka answers with the first record that is left, or with none."""
    delete_up_to(admin, world, 10)
    assert world.reset(apply=False, to=moment).to_seq == 1, "all after it is there"
    for offset, told in ((20, 2), (30, 3)):
        delete_up_to(admin, world, offset)
        error = refused(world, moment)
        assert error.faults[0].startswith(f"{Span(world.topic, 0, 10, 20)}: below the log start")
        assert (error.told_seq, error.told_from) == (told, published_at(world, told))
        after = error.told_from + timedelta(milliseconds=1)
        assert world.reset(apply=False, to=after).to_seq == told
    world.produce(5, 1)
    world.run("another")
    assert world.reset(apply=False, to=now()).to_seq == 4, "the other partition rests"


@pytest.fixture
def compacting(world: World, moment: datetime, monkeypatch: pytest.MonkeyPatch) -> World:
    """A batch of old records was published since, and one was compacted away, as it is told."""
    producer = Producer({"bootstrap.servers": world.kafka})
    for number in range(5):
        producer.produce(world.topic, good(str(number)), partition=1, timestamp=1_700_000_000_000)
    assert producer.flush(60) == 0
    world.run("old records")
    monkeypatch.setattr(
        moment_module, "retentions", lambda _, topics: {one: Retention() for one in topics}
    )
    return world


def test_where_compaction_took_records_of_what_would_stay_a_time_is_refused(
    compacting: World,
) -> None:
    """The time lies behind all records; batch 4 was published later, and could have held one."""
    to = published_at(compacting, 3) + timedelta(microseconds=1)
    assert compacting.reset(apply=False, to=to).to_seq == 4
    described = Described.of(compacting.pipeline, Role.run)
    with pytest.raises(RewindTimeUnknown):  # who reads no records can't know
        dry_run(SeenRegion(described), to.isoformat(), compacting.connections)
    compacting.sql("UPDATE tidemark.spans SET records = records + 1 WHERE seq = 4")
    assert refused(compacting, to).told_seq == 4


def test_a_log_that_is_gone_tells_no_time(
    world: World, moment: datetime, admin: AdminClient
) -> None:
    """Its records of that time are rows of batches that a new log does not name."""

    def told() -> int:
        error = refused(world, moment)
        assert error.faults[0].startswith(str(Span(world.topic, 0, 10, 20)))
        return error.told_seq

    create_again(admin, world.topic)
    world.overrides = TOLD
    world.produce(5)
    world.run("told")
    assert told() == 3
    admin.delete_topics([world.topic])[world.topic].result(120)
    assert told() == 4


def test_a_time_of_forgotten_batches_is_refused_where_kafka_lost_any_record(
    world: World, moment: datetime, admin: AdminClient
) -> None:
    """Batch 2 is the oldest that is kept: what batch 1 held is not known to the ledger."""
    world.sql("UPDATE tidemark.regions SET oldest_seq = 2")
    world.sql("DELETE FROM tidemark.spans WHERE seq = 1")
    world.sql("DELETE FROM tidemark.batches WHERE seq = 1")
    later = published_at(world, 2) - timedelta(microseconds=1)
    with region_of(world.pipeline, world.connections) as region:
        assert seq_of(region, later) == 2
        delete_up_to(admin, world, 10)
        with pytest.raises(RewindTooFar):
            seq_of(region, later)
