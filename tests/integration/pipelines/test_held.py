"""A rewind looks at what Kafka still gives of its records, before it fences anyone."""

import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.support.produce import good, numbered, produce
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.world import World, dump

from tidemark.admin import held
from tidemark.admin.errors import RewindWouldLose
from tidemark.kafka import retention
from tidemark.kafka.facts import Broker
from tidemark.kafka.spans import read_spans
from tidemark.model.offsets import Span
from tidemark.page.answers import dry_run
from tidemark.page.seen import SeenRegion
from tidemark.protocol.errors import RewindOfLeftTopics
from tidemark.runs.region import region_of
from tidemark.settings.described import Described, Role

COMPACTING = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
}


def set_topic(admin: AdminClient, topic: str, **settings: str) -> None:
    """The topic has these settings from now on."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(120)


def produce_keys(world: World, count: int) -> None:
    """As many records, of ten keys."""
    producer = Producer({"bootstrap.servers": world.kafka, "linger.ms": 0})
    for number in range(count):
        producer.produce(world.topic, good(str(number)), str(number % 10), partition=0)
    assert producer.flush(120) == 0


@pytest.fixture
def compacted(world: World, admin: AdminClient) -> World:
    """Sixty records were drained, in batches; then compaction took some of them."""
    produce_keys(world, 60)
    world.run("first", max_records=30)
    set_topic(admin, world.topic, **COMPACTING)
    config, drained = {"bootstrap.servers": world.kafka}, Span(world.topic, 0, 0, 60)

    def is_compacted() -> bool:
        produce_keys(world, 10)  # segments roll by age, with a record
        return sum(map(len, read_spans(config, [drained]))) < 60

    until(is_compacted)
    return world


def test_what_compaction_took_is_refused_with_the_numbers_until_it_is_accepted(
    compacted: World, admin: AdminClient
) -> None:
    """B4, B16: else the rewind removes sixty rows and fewer come back; long ago too."""
    before, kafka = dump(compacted.warehouse), compacted.kafka_offsets()
    for policy, counted in (("compact", 60), ("delete", 30)):
        set_topic(admin, compacted.topic, **{"cleanup.policy": policy})
        for apply in (False, True):
            with pytest.raises(RewindWouldLose) as refused:
                compacted.reset(to=0, apply=apply)
            [fault] = refused.value.faults
            span = Span(compacted.topic, 0, 0, counted)
            assert fault.startswith(f"{span} held {counted} records and holds ")
    assert dump(compacted.warehouse) == before
    assert compacted.kafka_offsets() == kafka
    dry = compacted.reset(to=0, apply=False, overrides=("accept_data_loss",))
    assert dry.removed is not None
    assert "compaction took" in dry.removed.lost[0]
    compacted.reset(to=0, overrides=("accept_data_loss",))
    audit = "SELECT overrides, rows_removed, state FROM tidemark.resets"
    assert compacted.sql(audit) == [(["accept_data_loss"], 60, "finished")]


@pytest.mark.long
def test_what_is_due_for_deletion_is_refused_until_it_is_accepted(
    world: World, admin: AdminClient
) -> None:
    """B4: Kafka keeps the record only because its segment has newer ones."""
    old = int((time.time() - 3600) * 1000)
    producer = Producer({"bootstrap.servers": world.kafka})
    for milliseconds in (old, 0):
        producer.produce(world.topic, good("value"), partition=0, timestamp=milliseconds)
    assert producer.flush(120) == 0
    world.run("first")
    set_topic(admin, world.topic, **{"retention.ms": "7200000"})
    report = world.reset(to=0, apply=False)
    assert report.removed is not None
    (seconds,) = report.removed.seconds.values()
    assert seconds is not None
    assert 0 < seconds <= 3600
    set_topic(admin, world.topic, **{"retention.ms": "1800000"})
    with pytest.raises(RewindWouldLose) as refused:
        world.reset(to=0)
    [fault] = refused.value.faults
    assert fault.startswith(f"{world.partition()}@0 has been due for deletion for ")
    assert len(world.rows()) == 2
    world.reset(to=0, overrides=("accept_data_loss",))
    assert world.rows() == []


@pytest.fixture
def two_topics(world: World, admin: AdminClient) -> World:
    """Four records of one topic were drained, and six of another one."""
    other = create_topic(admin, NewTopic(f"{world.topic}_other", 1, 1))
    world.settings |= {"kafka": {"topics": [world.topic, other]}}
    world.produce(4)
    produce(world.kafka, other, numbered(6), 0)
    world.run("first")
    return world


def test_rows_of_a_topic_that_is_no_longer_read_are_not_taken_back_unasked(
    two_topics: World,
) -> None:
    """B4: they would be removed, and no run would read them again; the file alone says nothing."""
    world, both = two_topics, two_topics.settings["kafka"]
    span = Span(f"{world.topic}_other", 0, 0, 6)
    alone = {"topics": [world.topic]}
    before = dump(world.warehouse)
    world.settings |= {"kafka": alone}
    with pytest.raises(RewindOfLeftTopics) as refused:
        world.reset(to=0)
    assert refused.value.left == {span: 6}
    assert dump(world.warehouse) == before
    world.overrides = ("accept_changes",)
    world.run("left")
    world.overrides = ()
    for kafka in (alone, both):
        world.settings |= {"kafka": kafka}
        with pytest.raises(RewindOfLeftTopics) as refused:
            world.reset(to=0, apply=False)
        assert refused.value.left == {span: 6}
    world.settings |= {"kafka": alone}
    dry = world.reset(to=0, apply=False, overrides=("accept_data_loss",))
    assert dry.removed is not None
    assert dry.removed.lost == (f"{span}, 6 records: the pipeline no longer reads the topic",)
    assert len(world.rows()) == 10
    world.reset(to=0, overrides=("accept_data_loss",))
    audit = "SELECT overrides, why, rows_removed, state FROM tidemark.resets"
    assert world.sql(audit) == [(["accept_data_loss"], "a test", 10, "finished")]
    world.run("alone")
    assert len(world.rows()) == 4


def test_a_left_topic_that_was_deleted_stops_no_rewind_that_leaves_it_alone(
    two_topics: World, admin: AdminClient
) -> None:
    """B4: to a checkpoint behind its last record, and to a time; its margin is not known."""
    world, left = two_topics, f"{two_topics.topic}_other"
    world.settings |= {"kafka": {"topics": [world.topic]}}
    world.overrides = ("accept_changes",)
    world.produce(2, start=4)
    world.run("left")
    admin.delete_topics([left])[left].result(120)
    broker = Broker({"bootstrap.servers": world.kafka})
    until(lambda: broker.gone([left]))
    assert world.reset(to=datetime.now(UTC), apply=False).to_seq == 2
    report = world.reset(to=1)
    assert report.removed is not None
    assert report.removed.margins == {world.partition(0): 4, world.partition(1): 0}
    assert len(world.rows()) == 10


def test_a_topic_that_is_read_once_more_is_taken_back_like_the_others(two_topics: World) -> None:
    """B4: what the newest run reads, the next one reads again."""
    world, both = two_topics, two_topics.settings["kafka"]
    world.overrides = ("accept_changes",)
    for run_id, kafka in (("left", {"topics": [world.topic]}), ("back", both)):
        world.settings |= {"kafka": kafka}
        world.run(run_id)
    world.overrides = ()
    world.reset(to=0)
    assert world.rows() == []
    world.run("again")
    assert len(world.rows()) == 10


def test_counts_that_the_ledger_has_forgotten_are_not_taken_for_held(
    world: World, admin: AdminClient
) -> None:
    set_topic(admin, world.topic, **{"cleanup.policy": "compact"})
    world.settings = {"retain_checkpoints": 1}
    for run_id in ("first", "pruning"):
        produce_keys(world, 10)
        world.run(run_id)
    with pytest.raises(RewindWouldLose) as refused:
        world.reset(to=0)
    [fault] = refused.value.faults
    assert fault.startswith(f"{Span(world.topic, 0, 0, 10)} may have been compacted")


def test_a_log_that_is_whole_is_no_loss(
    world: World, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes long says how far it has come."""
    monkeypatch.setattr(held, "TELL_SECONDS", 0)
    told = list[str]()
    produce_keys(world, 10)
    world.run()
    set_topic(admin, world.topic, **{"cleanup.policy": "compact"})
    with region_of(world.pipeline, world.connections) as region:
        (one,) = held.held(region, region.ledger.rewind_plan(region.name, 0), told.append).values()
    assert one == held.Held()
    assert "records that Kafka still holds" in told[0]
    assert world.reset(to=0).removed is not None
    assert world.run("again").rows == 10


def test_a_dry_run_for_a_page_reads_no_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G117: Airflow's api-server is no place to read topics; what is not known is not said."""
    world.produce(5)
    world.run("first")

    def reads(*_: object) -> None:
        raise AssertionError("a record is read")

    monkeypatch.setattr(held, "read_spans", reads)
    monkeypatch.setattr(retention, "read_spans", reads)
    with pytest.raises(AssertionError):
        world.reset(apply=False, to=0)
    described = Described.of(world.pipeline, Role.run)
    report = dry_run(SeenRegion(described), "initial", world.connections)
    assert report.removed is not None
    assert (report.applied, report.removed.rows, report.removed.lost) == (False, 5, ())
    assert report.removed.seconds == {}
