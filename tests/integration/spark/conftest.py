"""Spark for the tests of a module, and batches that it drains."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.batches import Batches, Drained, Run, documents
from tests.support.produce import produce
from tests.support.sharing import group_of

from tidemark.model.batch import ONLY
from tidemark.model.offsets import Span
from tidemark.spark import executor as executors
from tidemark.spark.executor import SparkExecutor
from tidemark.spark.session import session
from tidemark.spark.transform import Transform

_SPARK = pytest.StashKey[SparkSession]()


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """A session that the files of a group have together."""
    kept = request.config.stash
    if _SPARK not in kept or kept[_SPARK].sparkContext._jsc is None:
        kept[_SPARK] = session("tidemark tests")
        kept[_SPARK].conf.set("spark.sql.shuffle.partitions", 1)  # each is a Python worker
    return kept[_SPARK]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Spark ends with the last test of a group."""
    kept = item.config.stash
    if _SPARK in kept and (nextitem is None or group_of(nextitem.path) != group_of(item.path)):
        kept[_SPARK].stop()
        del kept[_SPARK]


@pytest.fixture
def kept_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands use the module's Spark, and it goes on when they end.

    A member that outlives a red test would end the Spark of the tests behind it.
    """
    monkeypatch.setattr(executors, "context", lambda *_, **__: spark.sparkContext)
    monkeypatch.setattr(SparkExecutor, "close", lambda _: None)
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("member "):
            thread.join(300)


@pytest.fixture
def batches(kafka: str, warehouse: dict[str, Any]) -> Batches:
    """Batches in a database of one test."""
    return Batches(kafka, warehouse)


@pytest.fixture
def spans(kafka: str, topic: Callable[..., str]) -> list[Span]:
    """Ten records and a dead letter in one partition, two in the other."""
    name = topic(partitions=2)
    produce(kafka, name, [*documents(5), b"bad", *documents(5, 5)], 0)
    produce(kafka, name, documents(2, 10), 1)
    return [Span(name, 0, 0, 11), Span(name, 1, 0, 2)]


@pytest.fixture
def run(spark: SparkSession, batches: Batches, spans: Sequence[Span]) -> Run:
    def drained(transform: Transform, targets: Sequence[str] = (ONLY,)) -> Drained:
        executor = SparkExecutor(batches.spec(), transform, lambda: spark.sparkContext, targets)
        batch = batches.new(spans, executor.output_schemas())
        return batch, executor.drain(batch, spans)

    return drained
