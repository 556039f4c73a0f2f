"""Spark's Python workers, started before the first batch: it would wait for them, and its plan."""
# ruff: noqa: TID253 -- imported only once there is something to read

import logging
from collections.abc import Iterator
from threading import Thread

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

WARM_SECONDS = 10.0
"""A cluster may be busy for longer: then the first batch waits, whose job can be cancelled."""


def warm(spark: SparkContext, *, for_rows: bool) -> None:
    """Each core has started a worker, or WARM_SECONDS have passed; nothing fails here.

    Workers that rows pass through are others.
    """
    thread = Thread(target=_start_workers, args=(spark, for_rows), name="warm", daemon=True)
    thread.start()
    thread.join(WARM_SECONDS)


def _start_workers(spark: SparkContext, for_rows: bool) -> None:
    cores = spark.defaultParallelism
    try:
        if for_rows:
            numbers = SparkSession(spark).range(0, cores, 1, cores)
            numbers.mapInArrow(_same, "id long").collect()
        else:
            spark.parallelize(range(cores), cores).foreach(_nothing)
    except Exception as error:  # the first batch will say it
        log.debug("no worker was started beforehand", exc_info=error)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _nothing(_: int) -> None:
    """A task that does nothing."""
