"""The pool of processes stages what Spark would, and runs a killed worker's task again."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.batches import Batches, documents
from tests.support.failpoint import failpoint
from tests.support.pool import PoolExecutor
from tests.support.produce import produce

from tidemark.errors import DataLost, JobFailed
from tidemark.model.batch import ONLY
from tidemark.model.offsets import Span
from tidemark.spark.arrow import ArrowTransform

Topic = Callable[..., str]


@pytest.fixture
def pool(batches: Batches) -> Iterator[PoolExecutor]:
    executor = PoolExecutor(batches.spec())
    yield executor
    executor.close()


def without_text(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.drop_columns("text")


def test_every_record_is_staged_once_and_processes_live_on(
    kafka: str, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic(partitions=3)
    for partition in range(3):
        produce(kafka, name, [*documents(20, 100 * partition), b"bad"], partition)
    attempts: list[int] = []
    for start, end in [(0, 10), (10, 21)]:
        spans = [Span(name, partition, start, end) for partition in range(3)]
        batch = batches.new(spans, pool.output_schemas())
        winners = pool.drain(batch, spans)
        good = [100 * p + n for p in range(3) for n in range(start, min(end, 20))]
        assert batches.numbers(batch, winners) == good
        assert len(batches.reads(batch)) == 3
        attempts += [winner.attempt for winner in winners]
    assert sorted(attempts) == [0, 1, 2, 3]


def test_a_transform_is_a_function_of_arrow(kafka: str, topic: Topic, batches: Batches) -> None:
    name = topic()
    produce(kafka, name, documents(3))
    span = Span(name, 0, 0, 3)
    executor = PoolExecutor(batches.spec(), ArrowTransform(without_text), processes=1)
    assert "text" not in executor.output_schemas()[ONLY].names
    batch = batches.new([span], executor.output_schemas())
    assert batches.numbers(batch, executor.drain(batch, [span])) == [0, 1, 2]
    executor.close()


@pytest.mark.parametrize("point", ["read.staged", "read.after", "stage.commit", "stage.after"])
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
        winners = job.result(100)
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
    with failpoint("read.before", "kill"), pytest.raises(JobFailed, match="died 2 times"):
        pool.drain(batch, [span])
    winners = pool.drain(batch, [span])
    assert batches.numbers(batch, winners) == [0, 1, 2]


def test_an_error_of_a_worker_comes_out_as_it_is(
    kafka: str, admin: AdminClient, topic: Topic, batches: Batches, pool: PoolExecutor
) -> None:
    name = topic()
    produce(kafka, name, documents(20))
    admin.delete_records([TopicPartition(name, 0, 8)])[TopicPartition(name, 0)].result(20)
    span = Span(name, 0, 3, 20)
    with pytest.raises(DataLost, match=r"@3 is needed"):
        pool.drain(batches.new([span], pool.output_schemas()), [span])


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
        with pytest.raises(JobFailed, match="cancelled"):
            job.result(30)
    assert not worker.is_running()
    assert batches.reads(batch) == []


def stopped_worker(job: "Future[Any]", besides: psutil.Process | None = None) -> psutil.Process:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        assert not job.done(), job.result()
        for child in psutil.Process().children(recursive=True):
            try:
                if child != besides and child.status() == psutil.STATUS_STOPPED:
                    return child
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.02)
    raise AssertionError("no worker reached the failpoint")
