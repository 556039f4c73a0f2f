"""The pool of processes stages what Spark would, and runs a killed worker's task again."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import active_children, get_context
from typing import Any

import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.batches import Batches, documents
from tests.support.failpoint import failpoint
from tests.support.pool import PoolExecutor
from tests.support.produce import produce
from tests.support.spark_cluster import stopped
from tests.support.waiting import until

from tidemark.errors import JobFailed
from tidemark.kafka.errors import OffsetNotHeld
from tidemark.model.offsets import Span

Topic = Callable[..., str]


@pytest.fixture
def pool(batches: Batches) -> Iterator[PoolExecutor]:
    """Its workers are forks of a process that has imported what they need, once for all tests."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.region", "tests.support.pool"])
    executor = PoolExecutor(batches.spec(), context=context)
    yield executor
    executor.close()


def test_every_record_is_staged_once_and_processes_live_on(
    kafka: str, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        produce(kafka, name, [*documents(20, 100 * partition), b"bad"], partition)
    attempts: list[int] = []
    processes: list[set[int]] = []
    for start, end in [(0, 10), (10, 21)]:
        spans = [Span(name, partition, start, end) for partition in range(3)]
        batch = batches.new(spans, pool.output_schemas())
        winners = pool.drain(batch, spans)
        good = [100 * p + n for p in range(3) for n in range(start, min(end, 20))]
        assert batches.numbers(batch, winners) == good
        assert len(batches.reads(batch)) == 3
        attempts += [winner.attempt for winner in winners]
        processes.append({child.pid for child in workers()})
    assert sorted(attempts) == [0, 1, 2, 3]
    assert processes[0] == processes[1]


@pytest.mark.parametrize("point", ["read.staged", "stage.after"])
def test_a_killed_worker_leaves_only_the_winners_rows(
    point: str, kafka: str, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic()
    produce(kafka, name, [*documents(20), b"bad"])
    span = Span(name, 0, 0, 21)
    batch = batches.new([span], pool.output_schemas())
    with failpoint(point, "stop"), ThreadPoolExecutor(1) as thread:
        job = thread.submit(pool.drain, batch, [span])
        first = stopped_worker(job)
        first.kill()
        stopped_worker(job, besides=first).send_signal(signal.SIGCONT)
        winners = job.result(120)
    assert [winner.attempt for winner in winners] == [1]
    assert batches.numbers(batch, winners) == list(range(20))
    assert batches.attempts(batch) == ({0, 1} if point == "stage.after" else {1})


def test_a_worker_that_dies_twice_fails_the_job(
    kafka: str, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic()
    produce(kafka, name, documents(3))
    span = Span(name, 0, 0, 3)
    batch = batches.new([span], pool.output_schemas())
    with failpoint("read.before", "kill"), pytest.raises(JobFailed):
        pool.drain(batch, [span])
    winners = pool.drain(batch, [span])
    assert batches.numbers(batch, winners) == [0, 1, 2]
    assert [winner.attempt for winner in winners] == [2]


def test_an_error_of_a_worker_comes_out_as_it_is(
    kafka: str, admin: AdminClient, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic()
    produce(kafka, name, documents(20))
    admin.delete_records([TopicPartition(name, 0, 8)])[TopicPartition(name, 0)].result(120)
    span = Span(name, 0, 3, 20)
    with pytest.raises(OffsetNotHeld) as caught:
        pool.drain(batches.new([span], pool.output_schemas()), [span])
    assert (caught.value.topic_partition, caught.value.offset) == (span.topic_partition, 3)


def test_cancelling_kills_the_workers(
    kafka: str, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic()
    produce(kafka, name, documents(3))
    span = Span(name, 0, 0, 3)
    batch = batches.new([span], pool.output_schemas())
    with failpoint("read.before", "stop"), ThreadPoolExecutor(1) as thread:
        job = thread.submit(pool.drain, batch, [span])
        worker = stopped_worker(job)
        pool.cancel()
        with pytest.raises(JobFailed):
            job.result(120)
    assert not worker.is_running()
    assert batches.reads(batch) == []


def stopped_worker(job: "Future[Any]", besides: psutil.Process | None = None) -> psutil.Process:
    """A worker of this process that has reached the failpoint."""
    found: list[psutil.Process] = []

    def one_has() -> bool:
        assert not job.done(), job.result()
        found[:] = [one for one in stopped(workers()) if one != besides]
        return bool(found)

    until(one_has, pause=0.02)
    return found[0]


def workers() -> list[psutil.Process]:
    """The pool's processes that live."""
    found = []
    for child in active_children():
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(child.pid))
    return found
