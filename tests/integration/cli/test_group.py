"""`tidemark group` and `tidemark mirror` on a real group: members, strangers, drift."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.support.commands import answer, commit, settle_in, tidemark
from tests.support.executor import LocalExecutor, nothing
from tests.support.waiting import until
from tests.support.world import World, dump

from tidemark.kafka.facts import Broker
from tidemark.model.batch import Batch
from tidemark.model.offsets import Span
from tidemark.protocol.plan import plan_batch


@pytest.fixture
def region(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Five records in one checkpoint, in a project of its own."""
    world.produce(5)
    world.run("first")
    settle_in(world, tmp_path, monkeypatch)
    return world


@contextmanager
def at_work(region: World) -> Iterator[None]:
    """A member of an open run is in the middle of its batch until the block ends."""
    working, go_on = threading.Event(), threading.Event()

    def wait(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        working.set()
        assert go_on.wait(300)

    region.before = wait
    region.open("second")
    member = threading.Thread(target=region.drain, args=("second",))
    member.start()
    try:
        assert working.wait(300)
        yield
    finally:
        region.before = nothing
        go_on.set()
        member.join(300)


@contextmanager
def foreign(region: World) -> Iterator[None]:
    """A consumer that is no member is in the region's group and holds its partitions."""
    config = {"bootstrap.servers": region.kafka, "group.id": region.region, "client.id": "grafana"}
    consumer = Consumer(config)
    try:
        consumer.subscribe([region.topic])
        until(lambda: consumer.poll(0.1) or consumer.assignment())
        yield
    finally:
        consumer.close()


def plan(region: World) -> None:
    """The open run has its unpublished batch, which nobody drains."""
    facts = Broker({"bootstrap.servers": region.kafka}).facts([region.topic])
    state = region.ledger().region_state(region.region)
    assert state is not None
    assert plan_batch(region.ledger(), region.region, state.epoch, facts)


def test_a_live_member_is_shown_by_kafka_and_by_the_ledger(region: World) -> None:
    """S34."""
    region.produce(3, start=50)
    with at_work(region):
        found = answer("group", region.region)
        shown = tidemark("group", region.region).stdout
    assert (found["state"], found["protocol"]) == ("stable", "classic")
    assert (found["assignor"], found["run_state"]) == ("cooperative-sticky", "open")
    assert found["coordinator"].startswith("127.0.0.1:")
    (member,) = found["members"]
    assert (member["kind"], member["number"], member["name"]) == ("member", 2, "m1")
    assert (member["state"], member["in_group"]) == ("draining", True)
    assert member["client_id"] == f"tidemark-{region.region}-2"
    assert member["partitions"] == [f"{region.topic}[0]", f"{region.topic}[1]"]
    assert member["seen_age_s"] < 600
    held_up = found["held_up"]
    assert (held_up["by"], held_up["kind"]) == ("member 2 (m1)", "member")
    assert held_up["partitions"] == [f"{region.topic}[0]"]
    assert found["unclaimed"] == [str(Span(region.topic, 0, 5, 8))]
    assert "2 m1" in shown
    assert f"waits for member 2 (m1), which holds {region.topic}[0]" in shown


@pytest.mark.long
def test_a_foreign_consumer_is_marked_and_named_as_what_holds_things_up(region: World) -> None:
    region.produce(3, start=50)
    region.open("second")
    plan(region)
    with foreign(region):
        found = answer("group", region.region)
        shown = tidemark("group", region.region).stdout
        dry = answer("reset", region.region)
        told = tidemark("reset", region.region).stdout
    (stranger,) = found["members"]
    assert (stranger["kind"], stranger["client_id"]) == ("foreign", "grafana")
    assert (found["held_up"]["kind"], found["held_up"]["partitions"]) == (
        "foreign", [f"{region.topic}[0]"],
    )  # fmt: skip
    assert "no member of the region" in " ".join(shown.split())
    assert "waits for grafana on" in shown
    assert (dry["fences"], len(dry["foreign"])) == ([], 1)
    assert "not fenced  grafana on" in told


def test_a_mirror_repairs_what_somebody_moved(region: World) -> None:
    """B13."""
    before = dump(region.warehouse)
    commit(region, region.partition(0), 2)
    difference = f"{region.partition(0)}: ledger 5, Kafka 2"
    looked = answer("mirror", region.region, "--check", exits=1)
    assert (looked["mirrored"], looked["after"]) == (False, [difference])
    assert region.kafka_offsets()[region.partition(0)] == 2
    assert difference in tidemark("mirror", region.region, "--check", exits=1).stdout
    repaired = answer("mirror", region.region)
    assert (repaired["before"], repaired["after"]) == ([difference], [])
    assert region.kafka_offsets() == region.ledger_offsets()
    assert answer("mirror", region.region, "--check")["before"] == []
    told = tidemark("mirror", region.region).stdout
    assert "Kafka was written and reads back equal in 2 partitions" in told
    assert dump(region.warehouse) == before
