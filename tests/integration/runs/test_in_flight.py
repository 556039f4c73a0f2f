"""Members with two batches in flight, on real Kafka and Postgres."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from threading import Event, current_thread
from typing import Any

import pytest
from tests.support.executor import LocalExecutor
from tests.support.failpoint import meanwhile
from tests.support.waiting import until
from tests.support.world import World, everything

from tidemark.errors import TargetRefused
from tidemark.kafka.errors import BrokersSilent
from tidemark.kafka.facts import Broker
from tidemark.model.batch import Batch
from tidemark.model.facts import Facts
from tidemark.model.offsets import Span
from tidemark.model.plan import Bounds
from tidemark.runs import _drain as drain_module
from tidemark.runs import _watch as watch_module
from tidemark.runs._drain import Drained
from tidemark.runs._publisher import Publisher

SECONDS = 120
COUNTS = (30, 30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members look around more often than in production."""
    monkeypatch.setattr(watch_module, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(drain_module, "LONGEST_WAIT_SECONDS", drain_module.WAIT_SECONDS)


@pytest.fixture
def flying(kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str) -> World:
    """A run with two batches in flight, over thirty records in each of two partitions."""
    world = World(kafka, warehouse, topic(partitions=len(COUNTS)), group)
    for partition, count in enumerate(COUNTS):
        world.produce(count, partition)
    world.begin("run", Bounds(10, in_flight=2))
    return world


def batches(world: World) -> list[tuple[int, str]]:
    """Seq and state of every batch."""
    return world.sql("SELECT seq, state FROM tidemark.batches ORDER BY seq")


def test_the_next_batch_is_drained_while_one_is_published(flying: World) -> None:
    """B18: the publish of a batch stands still until the job of the next one has begun."""
    begun = Event()

    def begin(_: LocalExecutor, batch: Batch, __: Sequence[Span]) -> None:
        if batch.seq == 2:
            begun.set()

    flying.before = begin
    with meanwhile("publish.moved", lambda: begun.wait(SECONDS) or pytest.fail("no second job")):
        assert flying.drain().batches == 6
    assert flying.close().rows == sum(COUNTS)
    assert flying.rows() == everything(COUNTS)
    assert flying.kafka_offsets() == flying.ledger_offsets()


@pytest.mark.long
def test_nobody_waits_for_kafka_to_plan_ahead(
    flying: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each plan ahead meets a Kafka that does not answer; when a batch is due, it answers."""
    facts, asked_ahead = Broker.facts, list[str]()

    def silent_ahead(broker: Broker, topics: Sequence[str]) -> Facts:
        if (name := current_thread().name).startswith("publisher"):
            asked_ahead.append(name)
            raise BrokersSilent(what="facts", seconds=15)
        return facts(broker, topics)

    monkeypatch.setattr(Broker, "facts", silent_ahead)
    assert flying.drain().batches == 6
    assert asked_ahead
    assert flying.close().rows == sum(COUNTS)
    assert flying.rows() == everything(COUNTS)


def _claimed_of(world: World, seq: int) -> bool:
    claims = "SELECT count(*) FROM tidemark.spans WHERE seq = %s AND contribution IS NOT NULL"
    return world.sql(claims, (seq,)) != [(0,)]


def test_a_publish_that_fails_ends_the_job_beside_it(flying: World) -> None:
    """Its error is the member's, whatever becomes of the job, and nothing after it is visible."""
    seen: list[LocalExecutor] = []

    def wait_for_the_end(executor: LocalExecutor, batch: Batch, _: Sequence[Span]) -> None:
        seen.append(executor)
        if batch.seq == 1:
            flying.sql("ALTER TABLE public.records ADD CHECK (kafka_offset < 3)")
        else:
            assert executor.cancelled.wait(SECONDS)

    flying.before = wait_for_the_end
    with pytest.raises(TargetRefused):
        flying.drain()
    assert len(seen) == 2
    assert batches(flying) == [(1, "planned"), (2, "planned")]
    assert flying.rows() == []


def test_what_a_refused_contribution_leaves_is_drained_by_who_owns_it(
    flying: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B18, S11: its member has looked while it was in hand, and found nothing left to do."""
    flying.begin("whole", Bounds(1000, in_flight=2))  # one batch, and none after it
    others: list[Future[Drained]] = []
    has_looked = seen_to_wait(monkeypatch)

    def the_other_claims_its_partition() -> None:
        others.append(flying.member(2, "whole"))
        until(lambda: _claimed_of(flying, 1))
        # of the first member, as the other one has passed there
        held.enter_context(meanwhile("publish.before", lambda: until(has_looked.is_set)))

    with meanwhile("drain.staged", the_other_claims_its_partition), ExitStack() as held:
        first = flying.member(1, "whole")
        until(lambda: others)
        rows = [member.result(SECONDS).rows for member in (first, *others)]
    assert sum(rows) == sum(COUNTS)
    assert flying.close("whole").rows == sum(COUNTS)
    assert flying.rows() == everything(COUNTS)


def seen_to_wait(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Is set once a member's loop has nothing to do but to wait for what it has in hand."""
    seen, wait = Event(), Publisher.wait

    def watched(self: Publisher) -> bool:
        if self.in_hand:
            seen.set()
        return wait(self)

    monkeypatch.setattr(Publisher, "wait", watched)
    return seen
