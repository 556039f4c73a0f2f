"""The mirror on the real group: who reads the ledger last writes last, whatever interleaves."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.failpoint import failpoint
from tests.support.waiting import until
from tests.support.world import World

from tidemark.admin.mirror import mirror_region
from tidemark.failpoints import FailpointHit
from tidemark.kafka import _mirror_writer as writer_module
from tidemark.kafka.facts import Broker
from tidemark.ledger.ledger import Ledger
from tidemark.model.errors import LeftTopicsGone
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.protocol.errors import MirrorReadBackDiffers
from tidemark.protocol.mirror import differences, mirror


class Interrupted(Ledger):
    """A ledger whose next look at the merged checkpoint is followed by something else."""

    then: Callable[[], Any] | None = None

    def merged_checkpoint(self, region: str, at: int | None = None) -> Any:
        found = super().merged_checkpoint(region, at)
        if self.then:
            then, self.then = self.then, None
            then()
        return found


def test_all_partitions_are_mirrored_with_region_epoch_and_seq(world: World) -> None:
    """H9e, B3: one mirror writes all of them, quiet ones included."""
    world.produce(3)
    closed = world.run()
    mark = f"{world.region}/1/1"
    assert world.group.committed_metadata(world.ledger_offsets()) == {
        world.partition(0): (3, mark), world.partition(1): (0, mark)
    }  # fmt: skip
    assert world.kafka_offsets() == closed.checkpoint.offsets


def test_a_mirror_that_read_before_a_newer_one_does_not_land_after_it(world: World) -> None:
    """H9a, H9d: it read the older checkpoint, paused, and the newer mirror was done.

    Being fenced under its own epoch it begins again, and writes what is true by now.
    """
    world.produce(3)
    world.open("first")
    ledger = Interrupted(world.ledger().engine)

    def publish_and_mirror() -> None:
        world.drain("first")

    ledger.then = publish_and_mirror
    checkpoint = mirror(ledger, world.group, world.region, 1)
    assert world.kafka_offsets() == world.ledger_offsets() == checkpoint.offsets
    assert world.ledger_offsets()[world.partition()] == 3


@pytest.mark.parametrize("point", ["mirror.before", "mirror.fenced", "mirror.read", "mirror.sent"])
def test_a_mirror_that_died_is_repeated(world: World, point: str) -> None:
    """At `mirror.sent` its transaction is pending: the next writer aborts it."""
    world.produce(3)
    world.run()
    with world.group.writer() as writer:
        writer.commit({world.partition(0): 1}, "behind")
    with failpoint(point), pytest.raises(FailpointHit):
        mirror(world.ledger(), world.group, world.region, 1)
    mirror(world.ledger(), world.group, world.region, 1)
    assert world.kafka_offsets() == world.ledger_offsets()


@pytest.mark.long
def test_a_reset_goes_on_after_a_mirror_that_died_in_its_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pending transaction hides the group's offsets until a new writer comes.

    The reset's first look at them gives up after 15 s.
    """
    monkeypatch.setattr(writer_module, "TRANSACTION_TIMEOUT_MS", 600_000)  # no broker ends it
    world.produce(3)
    world.open()
    with failpoint("mirror.sent"), pytest.raises(FailpointHit):
        world.drain()
    assert world.reset("run").applied
    assert world.kafka_offsets() == world.ledger_offsets()


@pytest.mark.long
def test_offsets_that_read_back_otherwise_are_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign consumer that commits in the group."""
    world.open()
    group = world.group
    monkeypatch.setattr(group, "committed", lambda _: {world.partition(0): 77})
    with pytest.raises(MirrorReadBackDiffers) as failed:
        mirror(world.ledger(), group, world.region, 1)
    assert failed.value.differences == (
        f"{world.partition(0)}: ledger 0, Kafka 77",
        f"{world.partition(1)}: ledger 0, Kafka none",
    )


def test_differences_are_told_partition_by_partition() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    ledger: Offsets = {second: 2, first: 1}
    assert differences(ledger, {first: 1, second: 2}) == []
    assert differences(ledger, {first: 1, TopicPartition("other", 0): 5}) == [
        "t[1]: ledger 2, Kafka none"
    ]


def test_a_left_topic_that_was_deleted_stops_neither_reset_nor_mirror(
    world: World, topic: Callable[..., str], admin: AdminClient
) -> None:
    """Kafka takes no offsets for it; the next open says that it is gone."""
    left = topic()
    world.settings = {"kafka": {"topics": [world.topic, left]}}
    world.produce(3)
    world.run("first")
    world.settings = {}
    admin.delete_topics([left])[left].result(120)
    broker = Broker({"bootstrap.servers": world.kafka})
    until(lambda: broker.gone([left]))
    for check in (True, False):
        report = mirror_region(world.pipeline, world.connections, check=check)
        assert (report.before, report.after) == ((), ())
    assert world.reset().drift == ()
    world.overrides = ("accept_changes",)
    with pytest.raises(LeftTopicsGone) as gone:
        world.open("second")
    assert gone.value.topics == (left,)
