"""Regions of several members on real Kafka and Postgres: they share, stand in, and end together."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event, Lock
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.clock import Clock
from tests.support.executor import LocalExecutor
from tests.support.failpoint import meanwhile
from tests.support.produce import numbered, produce
from tests.support.topics import add_partitions, create_topic
from tests.support.waiting import until
from tests.support.world import World, everything, fail

from tidemark.admin.errors import MirrorDuringRewind
from tidemark.admin.mirror import mirror_region
from tidemark.errors import Fenced, JobFailed
from tidemark.ledger.errors import EpochHasPassed
from tidemark.model.batch import Batch, Contribution
from tidemark.model.offsets import Span
from tidemark.postgres.transaction import transaction
from tidemark.protocol.publish import Result, contribute_and_publish
from tidemark.runs import _drain as drain_module
from tidemark.runs import _watch as watch_module
from tidemark.runs.errors import MemberFenced, RunStalled
from tidemark.runs.retire import retire
from tidemark.runs.targets import writers_of
from tidemark.settings.endpoints import Endpoints
from tidemark.spark.specs import job_spec
from tidemark.staging.tables import complete_reads

SECONDS = 120
PARTITIONS = 4
EVERYTHING = everything([10] * PARTITIONS)


def drain_whole_plan(world: World) -> None:
    """One more member drains and publishes the epoch's whole plan, whoever holds the partitions."""
    ledger = world.ledger()
    [batch] = ledger.unpublished_batches(world.region)
    number = ledger.register_member(world.region, batch.epoch, uuid4(), "another")
    endpoints = Endpoints.of(world.pipeline, world.connections)
    executor = LocalExecutor(job_spec(world.pipeline, endpoints, number))
    spans = [planned.span for planned in batch.spans]
    winners = executor.drain(batch, spans)
    with transaction(ledger.engine, "reads") as cursor:
        reads = complete_reads(cursor, batch.staging, number, spans)
    target_writers = writers_of(world.pipeline, executor.output_schemas())
    contribution = Contribution(number, reads, tuple(winners))
    outcome = contribute_and_publish(ledger, target_writers, batch, contribution)
    assert outcome.result is Result.published


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members look around more often than in production."""
    monkeypatch.setattr(watch_module, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(drain_module, "LONGEST_WAIT_SECONDS", drain_module.WAIT_SECONDS)


@pytest.fixture
def shared(kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str) -> World:
    """A region with ten records in each of four partitions."""
    world = World(kafka, warehouse, topic(partitions=PARTITIONS), group)
    for partition in range(PARTITIONS):
        world.produce(10, partition)
    return world


def owners(world: World) -> int:
    """Members of the group that hold partitions."""
    return sum(bool(holder.partitions) for holder in world.group.holders())


def until_all_hold(world: World, members: int) -> Callable[..., None]:
    """A hook that holds the first jobs back until so many members own partitions.

    A job that began with more than its share is held until it has heard that they are gone. Later
    jobs are not held: some of the members may have left.
    """
    met = Event()

    def hook(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if met.is_set():
            return
        until(lambda: owners(world) >= members or executor.cancelled.is_set())
        met.set()
        has_its_share = len(spans) * members <= PARTITIONS
        until(lambda: has_its_share or executor.interrupted.is_set())

    return hook


def test_members_share_the_partitions_and_each_batch_has_contributions_of_both(
    shared: World,
) -> None:
    """S1, S9, S14, S16: the one that claims the last span publishes for all."""
    shared.before = until_all_hold(shared, 2)
    shared.open(max_records=8)
    both = [shared.member(slot) for slot in (1, 2)]
    drained = [member.result(SECONDS) for member in both]
    assert shared.close().rows == 40 == sum(one.rows for one in drained)
    assert shared.rows() == EVERYTHING
    contributors = "SELECT count(DISTINCT member) FROM tidemark.contributions"
    assert shared.sql(contributors) == [(2,)]
    assert shared.kafka_offsets() == shared.ledger_offsets()


def test_a_member_without_a_partition_idles_and_ends_well(shared: World) -> None:
    """S1: it starts no job, and leaves when the ledger says that the run is done."""
    shared.before = until_all_hold(shared, PARTITIONS)
    shared.settings["members"] = PARTITIONS + 1
    shared.open()
    members = [shared.member(slot) for slot in range(1, PARTITIONS + 2)]
    drained = [member.result(SECONDS) for member in members]
    assert shared.close().rows == 40 == sum(one.rows for one in drained)
    assert len(shared.executors) == PARTITIONS


def test_partitions_that_go_to_another_member_end_just_the_job_that_reads_them(
    shared: World,
) -> None:
    """S11: the first one drains all, the second takes over a part, both go on; nobody is reset."""
    started = Event()
    interrupted: list[LocalExecutor] = []

    def hook(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if not started.is_set() and len(spans) == PARTITIONS:
            started.set()
            assert executor.interrupted.wait(SECONDS)
            interrupted.append(executor)

    shared.before = hook
    epoch = shared.open(max_records=8).epoch
    first = shared.member(1)
    assert started.wait(SECONDS)
    second = shared.member(2)
    assert first.result(SECONDS).rows + second.result(SECONDS).rows == 40
    assert len(interrupted) == 1
    assert shared.close().checkpoint.epoch == epoch
    assert shared.rows() == EVERYTHING


@pytest.mark.long
def test_a_member_whose_long_job_a_rebalance_ended_has_not_stood_still(shared: World) -> None:
    """It worked for longer than no_progress_seconds and claims nothing: the wait begins anew."""
    shared.settings = {"no_progress_seconds": 60}
    shared.clock = clock = Clock()
    started = Event()

    def hook(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if not started.is_set() and len(spans) == PARTITIONS:
            started.set()
            assert executor.interrupted.wait(SECONDS)

    shared.open(max_records=8)
    shared.before = fail
    with pytest.raises(JobFailed):
        shared.drain()  # the batch is planned: the ledger shows nothing new for a while
    shared.before = hook
    first = shared.member(1)
    assert started.wait(SECONDS)
    clock.now += 61
    second = shared.member(2)
    assert first.result(SECONDS).rows + second.result(SECONDS).rows == 40
    assert shared.close().rows == 40


@pytest.mark.long
def test_a_rebalance_without_work_in_flight_changes_nothing(shared: World) -> None:
    """S11: a revocation before anything was fetched is ignored."""
    shared.before = until_all_hold(shared, 2)
    shared.open()
    members = [shared.member(slot) for slot in (1, 2)]
    assert sum(member.result(SECONDS).batches for member in members) == 1
    assert shared.close().rows == 40


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_job_whose_batch_another_published_and_retired_is_for_nothing_and_no_failure(
    shared: World, point: str
) -> None:
    """The same, and the one that was accepted has dropped the staging under the other's job."""
    others: list[Batch] = []

    def overtake(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        if not others:
            others.append(batch)
            drain_whole_plan(shared)
            assert retire(shared.ledger().engine, shared.region) == [batch.seq]
            if point == "before":
                raise JobFailed()

    setattr(shared, point, overtake)
    shared.open(max_records=20)
    assert shared.drain().rows == 20
    assert shared.close().rows == 40
    assert shared.rows() == EVERYTHING


def test_a_reset_fences_every_member_and_the_next_run_reads_everything_once(shared: World) -> None:
    """S15, S31: with two members in the middle of a batch."""
    held, at_work = Event(), set[LocalExecutor]()

    def hold(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        until_all_hold(shared, 2)(executor, batch, spans)
        if held.is_set():
            return
        at_work.add(executor)
        assert executor.cancelled.wait(SECONDS)

    shared.before = hold
    shared.open("first", max_records=8)
    members = [shared.member(slot, "first") for slot in (1, 2)]
    until(lambda: len(at_work) == 2)
    shared.reset()
    for member in members:
        with pytest.raises(Fenced) as fenced:
            member.result(SECONDS)
        # Between two jobs, the ledger tells it.
        assert isinstance(fenced.value, MemberFenced | EpochHasPassed)
        assert fenced.value.epoch == 1
    states = "SELECT DISTINCT state FROM tidemark.members WHERE epoch = 1"
    assert shared.sql(states) == [("reset complete",)]
    held.set()
    shared.before = lambda *_: None
    shared.run("second")
    assert shared.rows() == EVERYTHING


def held_up(world: World) -> Callable[[], None]:
    """One of two members hangs in its job, the other waits; the function lets it go on."""
    first, release = Lock(), Event()

    all_hold = until_all_hold(world, 2)

    def hang(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        all_hold(executor, batch, spans)
        if first.acquire(blocking=False):
            assert release.wait(SECONDS)

    world.before = hang
    return release.set


def one_waits(world: World) -> bool:
    """One of two members has done its part of the only batch, the other is in its job."""
    claimed = world.sql("SELECT count(*) FROM tidemark.spans WHERE contribution IS NOT NULL")
    states = world.sql("SELECT state FROM tidemark.members ORDER BY state")
    return (claimed, states) == ([(PARTITIONS // 2,)], [("draining",), ("waiting",)])


def test_a_member_that_hangs_is_named_and_the_run_fails(shared: World) -> None:
    """S17: the wait for the others is bounded, after the last progress."""
    shared.settings = {"no_progress_seconds": 60}
    shared.clock = clock = Clock()
    release = held_up(shared)
    shared.open()
    members = [shared.member(slot) for slot in (1, 2)]
    until(lambda: one_waits(shared))
    clock.now += 61
    until(lambda: any(m.done() for m in members))
    [waiting] = [m for m in members if m.done()]
    [hanging] = [m for m in members if not m.done()]
    with pytest.raises(RunStalled) as stalled:
        waiting.result()
    assert {span.topic for span in stalled.value.spans} == {shared.topic}
    [holder] = stalled.value.holders
    assert holder.number(shared.region) in (1, 2)
    release()
    hanging.result(SECONDS)


@pytest.mark.long
def test_a_publish_that_takes_long_fails_nobody_who_waits_for_it(shared: World) -> None:
    """S17: its claims show at its COMMIT; until then the region's lock tells that it goes on."""
    shared.settings = {"no_progress_seconds": 60}
    shared.clock = clock = Clock()
    shared.before = until_all_hold(shared, 2)
    shared.open()
    at_it, release = Event(), Event()
    states = "SELECT state FROM tidemark.members ORDER BY state"

    def hold() -> None:
        at_it.set()
        assert release.wait(SECONDS)

    with meanwhile("publish.moved", hold):
        members = [shared.member(slot) for slot in (1, 2)]
        until(at_it.is_set)
        until(lambda: ("waiting",) in shared.sql(states))
        for _ in range(3):
            clock.move(61)
        assert not any(member.done() for member in members)
        release.set()
        for member in members:
            member.result(SECONDS)
    assert shared.close().rows == 40


def test_what_members_do_is_in_the_ledger_while_they_do_it(shared: World) -> None:
    """S7, S10, S13: names, states, assigned partitions, drain times; for display only."""
    seen: list[tuple[Any, ...]] = []
    statement = "SELECT name, state, cardinality(partitions) FROM tidemark.members ORDER BY name"

    def look(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        until_all_hold(shared, 2)(executor, batch, spans)
        until(lambda: seen or is_shared(shared.sql(statement)))
        seen.extend(shared.sql(statement))

    shared.before = look
    shared.open()
    for member in [shared.member(slot) for slot in (1, 2)]:
        member.result(SECONDS)
    assert seen[:2] == [("m1", "draining", 2), ("m2", "draining", 2)]
    times = "SELECT state, drain_ms > 0, drain_ms_max >= drain_ms FROM tidemark.members"
    assert shared.sql(times) == [("done", True, True)] * 2


def is_shared(members: list[tuple[Any, ...]]) -> bool:
    """Both members drain two partitions."""
    return len(members) == 2 and all(row[1:] == ("draining", 2) for row in members)


def test_two_regions_on_one_topic_each_get_every_record(shared: World) -> None:
    """S2."""
    settings = {"target": {"table": "public.others"}}
    other = replace(shared, region=f"{shared.region}_b", settings=settings, executors=[])
    shared.run()
    other.run()
    found = "SELECT kafka_partition, kafka_offset FROM public.others ORDER BY 1, 2"
    assert shared.rows() == other.sql(found) == EVERYTHING


def test_partitions_added_in_the_middle_of_a_run_join_the_next_one(
    shared: World, admin: AdminClient
) -> None:
    """S3, S22: none of their records is lost, with start position end too."""
    shared.settings = {"kafka": {"start": "end"}}
    shared.open("first")
    for partition in range(PARTITIONS):
        shared.produce(1, partition, start=10)
    shared.open("second")

    def grow(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
        shared.before = lambda *_: None
        add_partitions(admin, shared.topic, PARTITIONS + 1)
        produce(shared.kafka, shared.topic, numbered(3), partition=PARTITIONS)

    shared.before = grow
    shared.drain("second")
    shared.close("second")
    assert shared.rows() == [(partition, 10) for partition in range(PARTITIONS)]
    shared.run("third")
    assert shared.rows()[PARTITIONS:] == [(PARTITIONS, n) for n in range(3)]


def test_a_new_topic_of_a_pattern_joins_the_next_run_from_its_beginning(
    shared: World, admin: AdminClient
) -> None:
    """S24, H19: whatever the start position was."""
    pattern = rf"^{shared.topic}(-more)?"
    shared.settings = {"kafka": {"topics": [pattern], "start": "end"}}
    shared.run("first")
    more = f"{shared.topic}-more"
    create_topic(admin, NewTopic(more, 1, 1))
    try:
        produce(shared.kafka, more, numbered(3))
        assert shared.run("second").rows == 3
        assert shared.sql("SELECT DISTINCT kafka_topic FROM public.records") == [(more,)]
    finally:
        admin.delete_topics([more])[more].result(120)


@pytest.mark.long
def test_a_mirror_of_the_same_epoch_in_between_fences_nobody(shared: World) -> None:
    """Each member mirrors what it published; so may a person, by hand."""
    shared.before = until_all_hold(shared, 2)
    shared.open(max_records=8)

    def by_hand() -> None:
        mirror_region(shared.pipeline, shared.connections, check=False)

    with meanwhile("mirror.read", by_hand):
        members = [shared.member(slot) for slot in (1, 2)]
        assert sum(member.result(SECONDS).rows for member in members) == 40
    with meanwhile("mirror.after", by_hand):
        shared.close()
    assert shared.kafka_offsets() == shared.ledger_offsets()


@pytest.mark.long
def test_no_mirror_by_hand_lifts_kafka_in_the_middle_of_a_rewind(shared: World) -> None:
    """Kafka would be ahead of the ledger once the rewind is done."""
    shared.run("first", max_records=16)

    def by_hand() -> None:
        with pytest.raises(MirrorDuringRewind):
            mirror_region(shared.pipeline, shared.connections, check=False)

    with meanwhile("reset.after", by_hand):
        shared.reset(to=1)
    assert set(shared.kafka_offsets().values()) == {4} == set(shared.ledger_offsets().values())
