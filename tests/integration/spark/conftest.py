"""Spark for the tests of a module, and batches that it drains."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.batches import Batches

from tidemark.spark.session import session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session for one module."""
    spark = session("tidemark tests")
    yield spark
    spark.stop()


@pytest.fixture
def batches(kafka: str, warehouse: dict[str, Any]) -> Batches:
    """Batches in a database of one test."""
    return Batches(kafka, warehouse)
