"""A log that was rewritten, cut or created again under the ledger's offsets, on real Kafka."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.failpoint import failpoint
from tests.support.produce import numbered, produce, produce_transaction
from tests.support.topics import add_partitions, create_again, create_topic
from tests.support.world import World

from tidemark.failpoints import FailpointHit
from tidemark.kafka.errors import OffsetNotHeld
from tidemark.kafka.facts import Broker
from tidemark.model.errors import NextOffsetsNotHeld, NotHeld, TopicNotThatOfTheLedger
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span, TopicPartition
from tidemark.model.overrides import ACCEPT_DATA_LOSS
from tidemark.protocol.errors import ChangedSinceCheckpoint, RewindNotReadable, SettingDiffers
from tidemark.runs import _drain as drain_module
from tidemark.runs import open
from tidemark.runs.errors import DataLostWithoutSpent
from tidemark.runs.region import region_of
from tidemark.verify.verify import verify

LEADER_EPOCHS = "SELECT leader_epoch FROM tidemark.partitions WHERE partition = 0"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open does not wait for an end that is low to come back."""
    monkeypatch.setattr(open, "RECHECK_SECONDS", 0)


def remarks(world: World) -> list[str]:
    """What the newest run found."""
    [(found,)] = world.sql("SELECT remarks FROM tidemark.runs ORDER BY epoch DESC LIMIT 1")
    return list(found)


def test_the_leader_epoch_and_the_weight_of_what_was_read_are_kept(world: World) -> None:
    """B7, H14: they stand beside the offset that they belong to."""
    world.produce(3)
    world.run()
    assert world.sql(LEADER_EPOCHS) == [(0,)]
    spans = "SELECT leader_epoch, bytes FROM tidemark.spans"
    [(leader_epoch, weight)] = world.sql(spans)
    assert (leader_epoch, weight) == (0, sum(map(len, numbered(3))))


def refuses_what_was_rewritten(world: World) -> None:
    """The run `second` misses the leader epoch that the ledger knows, up to offset 3."""
    world.sql("UPDATE tidemark.partitions SET leader_epoch = 9 WHERE partition = 0")
    world.produce(2, start=3)
    world.open("second")
    with pytest.raises(OffsetNotHeld) as lost:
        world.drain("second")
    assert (lost.value.topic_partition, lost.value.offset) == (world.partition(), 3)


def test_a_log_that_never_had_the_leader_epoch_stops_the_run_until_told(world: World) -> None:
    """H14: validating with the leader's own epoch proves nothing, the consumed record's does."""
    world.produce(3)
    world.run("first")
    refuses_what_was_rewritten(world)
    world.overrides = (ACCEPT_DATA_LOSS,)
    world.run("third")
    assert [offset for _, offset in world.rows()] == [0, 1, 2, 3, 4]
    accepted = f"accepted: {world.partition()} was rewritten and goes on at 3"
    assert remarks(world) == [f"{accepted}, the ledger stood at 3"]
    overrides = "SELECT overrides FROM tidemark.runs ORDER BY epoch DESC LIMIT 1"
    assert world.sql(overrides) == [([ACCEPT_DATA_LOSS],)]


def test_behind_a_marker_alone_a_log_that_was_rewritten_is_noticed(world: World) -> None:
    """B7, G107: the span of the marker holds no record."""
    produce_transaction(world.kafka, world.topic, numbered(3))
    world.run("first", max_records=3)
    spans = "SELECT seq, start_offset, end_offset, records FROM tidemark.spans ORDER BY 1"
    assert world.sql(spans) == [(1, 0, 3, 3), (2, 3, 4, 0)]
    read_up_to = "SELECT next_offset, record_end FROM tidemark.partitions WHERE partition = 0"
    assert world.sql(read_up_to) == [(4, 3)]
    refuses_what_was_rewritten(world)


def test_accepted_loss_of_one_partition_leaves_the_others_protected(world: World) -> None:
    """H14: a rewritten log is noticed by the epoch of the last record, which is not forgotten."""
    for partition in (0, 1):
        world.produce(3, partition)
    world.run("first")
    world.sql("UPDATE tidemark.partitions SET leader_epoch = 9 WHERE partition = 0")
    world.overrides = (ACCEPT_DATA_LOSS,)
    world.open("second")
    kept = (
        "SELECT partition, record_end, leader_epoch FROM tidemark.partitions"
        " WHERE ended_epoch IS NULL ORDER BY 1"
    )
    assert world.sql(kept) == [(0, None, None), (1, 3, 0)]


def retained(world: World, admin: AdminClient, at: TopicPartition) -> None:
    """Five records come to a partition, and retention takes three of them."""
    produce(world.kafka, at.topic, numbered(5), at.partition)
    start = KafkaPartition(*at, 3)
    admin.delete_records([start])[start].result(120)


def test_what_retention_took_of_a_new_partition_stops_the_run_until_told(
    world: World, admin: AdminClient
) -> None:
    """B7, G108: of a topic that the region reads, before the first run that could read it."""
    world.produce(2)
    world.run("first")
    add_partitions(admin, world.topic, 3)
    added = world.partition(2)
    retained(world, admin, added)
    with pytest.raises(NextOffsetsNotHeld) as lost:
        world.open("second")
    assert lost.value.partitions == (NotHeld(added, 0, (3, 5)),)
    world.overrides = (ACCEPT_DATA_LOSS,)
    world.run("third")
    assert world.rows() == [(0, 0), (0, 1), (2, 3), (2, 4)]
    assert str(Span(*added, 0, 3)) in "".join(remarks(world))
    overrides = "SELECT overrides FROM tidemark.runs ORDER BY epoch DESC LIMIT 1"
    assert world.sql(overrides) == [([ACCEPT_DATA_LOSS],)]


def test_what_retention_took_of_a_topic_that_a_pattern_takes_in_is_remarked(
    world: World, admin: AdminClient
) -> None:
    """B7, S24, G108: nobody has asked for it yet; the first open begins where each log does."""
    world.settings["kafka"] = {"topics": [rf"^{world.topic}(-more)?"]}
    retained(world, admin, world.partition())
    world.run("first")
    assert remarks(world) == []
    more = TopicPartition(create_topic(admin, NewTopic(f"{world.topic}-more", 1, 1)), 0)
    retained(world, admin, more)
    world.run("second")
    assert [offset for _, offset in world.rows()] == [3, 3, 4, 4]
    [remark] = remarks(world)
    assert str(Span(*more, 0, 3)) in remark


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_what_was_read_of_a_log_that_was_cut_is_not_compared_with_what_came_after(
    world: World, admin: AdminClient
) -> None:
    """B5: once the log has grown past the cut, other records lie at the same offsets."""
    world.produce(3)
    world.run("first")
    create_again(admin, world.topic)
    world.produce(1, start=50)
    with region_of(world.pipeline, world.connections) as region:
        topic_id = region.broker.facts([world.topic]).topic_ids[world.topic]
    for table in ("spans", "partitions"):  # a log that is cut keeps its topic's id
        world.sql(f"UPDATE tidemark.{table} SET topic_id = %s", [topic_id])
    world.overrides = (ACCEPT_DATA_LOSS,)
    world.run("second")
    world.overrides = ()
    world.produce(5, start=60)
    world.run("third")
    report = verify(world.pipeline, world.connections, executor_of=world.executor_of)
    assert [(proof.wrong, len(proof.unverifiable)) for proof in report.batches] == [(0, 1), (0, 0)]
    assert "whose loss was accepted" in report.batches[0].unverifiable[0]


@pytest.fixture
def opened_again(world: World) -> World:
    """Three records are drained and two more are the second run's, which is open."""
    world.produce(3)
    world.run("first")
    world.produce(2, start=3)
    world.open("second")
    return world


def end_at(
    monkeypatch: pytest.MonkeyPatch, world: World, is_short: Callable[[int], bool]
) -> list[Facts]:
    """The nth time that Kafka is asked it may show an end before the ledger's offset."""
    told, tell = list[Facts](), Broker.facts

    def facts(broker: Broker, topics: Sequence[str]) -> Facts:
        found = tell(broker, topics)
        if is_short(len(told)):
            found = replace(found, ends=found.ends | {world.partition(): 1})
        told.append(found)
        return found

    monkeypatch.setattr(Broker, "facts", facts)
    return told


@pytest.mark.long
def test_an_end_that_is_low_for_a_moment_is_looked_at_again_before_a_plan(
    opened_again: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H14: a leader that has just been elected may not have its last stable offset yet."""
    monkeypatch.setattr(drain_module, "RECHECK_SECONDS", 120)
    told = end_at(monkeypatch, opened_again, lambda times: times < 2)
    assert opened_again.drain("second").rows == 2
    assert [facts.ends[opened_again.partition()] for facts in told[:3]] == [1, 1, 5]


def test_an_end_that_is_low_for_a_moment_is_looked_at_again_by_an_open(
    opened_again: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open, "RECHECK_SECONDS", 120)
    told = end_at(monkeypatch, opened_again, lambda times: times < 1)
    opened_again.open("third")
    assert [facts.ends[opened_again.partition()] for facts in told] == [1, 5]


def test_an_end_that_stays_low_is_a_truncated_log(
    opened_again: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "RECHECK_SECONDS", 0)
    end_at(monkeypatch, opened_again, lambda times: True)
    with pytest.raises(NextOffsetsNotHeld) as lost:
        opened_again.drain("second")
    assert lost.value.partitions == (NotHeld(opened_again.partition(), 3, (0, 1)),)


def test_retention_that_passed_the_ledger_stops_until_told(
    world: World, admin: AdminClient
) -> None:
    """B7: the missing range is named; told to go on, the next record that is left is read."""
    world.produce(3)
    world.run("first")
    world.produce(6, start=3)
    where = KafkaPartition(world.topic, 0, 7)
    admin.delete_records([where])[where].result(120)
    with pytest.raises(NextOffsetsNotHeld) as lost:
        world.open("second")
    assert lost.value.partitions == (NotHeld(world.partition(), 3, (7, 9)),)
    world.overrides = (ACCEPT_DATA_LOSS,)
    world.run("second")
    assert [offset for _, offset in world.rows()] == [0, 1, 2, 7, 8]
    assert remarks(world) == [f"accepted: {world.partition()} goes on at 7, the ledger stood at 3"]
    with pytest.raises(RewindNotReadable) as refused:
        world.reset(to=0, apply=False)
    assert str(world.partition()) in refused.value.ended


def test_an_override_is_used_up_by_the_open_that_was_given_it(
    world: World, admin: AdminClient
) -> None:
    """B11: a run that is cleared has the same form: what was lost since is asked for again."""
    world.produce(3)
    world.run("first")
    lose(world, admin, 6, upto=7)
    world.overrides = (ACCEPT_DATA_LOSS,)
    with failpoint("open.commit.before"), pytest.raises(FailpointHit):
        world.open("second")
    assert world.open("second").remarks[0].endswith("goes on at 7, the ledger stood at 3")
    spent = "accept_data_loss was used up by epoch 2 of run second"
    with failpoint("open.decided"), pytest.raises(FailpointHit):  # as if its answer were lost
        world.open("second")
    assert [one[: len(spent)] for one in world.open("second").remarks] == [spent]
    world.drain("second")
    world.close("second")
    lose(world, admin, 6, upto=12)
    with pytest.raises(DataLostWithoutSpent) as lost:
        world.open("second")
    assert [one[: len(spent)] for one in lost.value.spent] == [spent]
    cause = lost.value.__cause__
    assert isinstance(cause, NextOffsetsNotHeld)
    assert cause.partitions == (NotHeld(world.partition(), 9, (12, 15)),)
    world.run("third")
    assert [offset for _, offset in world.rows()] == [0, 1, 2, 7, 8, 12, 13, 14]


def lose(world: World, admin: AdminClient, count: int, *, upto: int) -> None:
    """Records come in, and retention takes what lies below an offset."""
    world.produce(count)
    where = KafkaPartition(world.topic, 0, upto)
    admin.delete_records([where])[where].result(120)


@pytest.mark.long
def test_retention_that_took_only_a_marker_is_no_loss(world: World, admin: AdminClient) -> None:
    """An idle partition whose records have expired: what lies behind the last one held none."""
    produce_transaction(world.kafka, world.topic, numbered(1))
    world.run("first")
    where = KafkaPartition(world.topic, 0, 2)
    admin.delete_records([where])[where].result(120)
    world.produce(3, start=2)
    world.run("second")
    assert [offset for _, offset in world.rows()] == [0, 2, 3, 4]


@pytest.mark.usefixtures("at_once")
def test_a_topic_created_again_stops_until_told_and_is_read_from_its_beginning(
    world: World, admin: AdminClient
) -> None:
    """B7: offsets of the new topic name other records, and none of them is passed over."""
    world.produce(5)
    world.run("first")
    create_again(admin, world.topic)
    world.produce(3)
    with pytest.raises(TopicNotThatOfTheLedger) as lost:
        world.open("second")
    assert lost.value.topic == world.topic
    assert lost.value.found_id is not None
    world.overrides = (ACCEPT_DATA_LOSS,)
    assert world.run("second").rows == 3
    world.overrides = ()
    world.produce(1, start=3)
    assert world.run("third").rows == 1
    assert world.kafka_offsets()[world.partition()] == 4


def test_another_configuration_is_refused_until_accepted(world: World) -> None:
    """B10: with the field that changed, its former and its new value."""
    world.produce(3)
    world.run("first")
    world.settings = {"transform": "jobs.flights:transform"}
    with pytest.raises(ChangedSinceCheckpoint) as refused:
        world.open("second")
    differs = SettingDiffers("transform", "none", "jobs.flights:transform")
    assert refused.value.changes == (differs,)
    world.overrides = ("accept_changes",)
    world.run("second")
    assert remarks(world) == ["accepted: transform was 'none' and is 'jobs.flights:transform'"]
