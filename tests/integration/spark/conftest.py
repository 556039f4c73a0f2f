"""Spark for the tests of a module, and batches that it drains."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.batches import Batches, Drained, Run, documents
from tests.support.produce import produce

from tidemark.model.batch import ONLY
from tidemark.model.offsets import Span
from tidemark.spark import executor as executors
from tidemark.spark.executor import SparkExecutor
from tidemark.spark.session import session
from tidemark.spark.transform import Transform


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session for one module."""
    spark = session("tidemark tests")
    spark.conf.set("spark.sql.shuffle.partitions", 1)  # each is a Python worker
    yield spark
    spark.stop()


@pytest.fixture
def kept_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the module's Spark, and it goes on when they end."""
    monkeypatch.setattr(executors, "context", lambda *_, **__: spark.sparkContext)
    monkeypatch.setattr(SparkExecutor, "close", lambda _: None)


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
