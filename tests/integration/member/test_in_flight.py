"""Members with two batches in flight, on real Kafka and Postgres."""

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import pytest
from tests.support.executor import LocalExecutor
from tests.support.failpoint import meanwhile
from tests.support.waiting import until
from tests.support.world import World, everything

from tidemark.errors import Fenced, TargetRefused
from tidemark.member import watch as watch_module
from tidemark.model.batch import Batch
from tidemark.model.bounds import Bounds
from tidemark.model.offsets import Span

SECONDS = 120
COUNTS = (30, 30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members look around more often than in production."""
    monkeypatch.setattr(watch_module, "WATCH_SECONDS", 0.1)


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


def test_a_fast_member_goes_on_while_a_slow_one_finishes(flying: World) -> None:
    """Its next batch waits, complete, for the one before; the slow member publishes both."""
    slow: list[LocalExecutor] = []

    def wait_for_the_other(executor: LocalExecutor, batch: Batch, _: Sequence[Span]) -> None:
        until(lambda: sum(bool(one.partitions) for one in flying.group.holders()) == 2)
        if not slow:
            slow.append(executor)
        if batch.seq == 1 and executor is slow[0]:
            until(lambda: executor.interrupted.is_set() or _claimed_of(flying, 2))

    flying.before = wait_for_the_other
    members = [flying.member(slot) for slot in (1, 2)]
    assert sum(member.result(SECONDS).batches for member in members) == 6
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


def test_who_is_fenced_in_the_middle_of_both_makes_nothing_visible(flying: World) -> None:
    def reset(_: LocalExecutor, batch: Batch, __: Sequence[Span]) -> None:
        if batch.seq == 2:
            flying.reset()

    flying.before = reset
    hold = meanwhile("publish.before", lambda: until(lambda: flying.sql(RESETS) != [(0,)]))
    with hold, pytest.raises(Fenced):
        flying.drain()
    assert flying.rows() == []
    assert flying.run("again", max_records=10).rows == sum(COUNTS)
    assert flying.rows() == everything(COUNTS)


RESETS = "SELECT count(*) FROM tidemark.resets"
