"""Spark's first Python worker, started before the first batch, whose plan would wait for it."""
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
    """A worker has started, or WARM_SECONDS have passed; nothing fails here.

    Further ones are forked from its parent, as needed. Those that rows pass through have another.
    """
    thread = Thread(target=_start_worker, args=(spark, for_rows), name="warm", daemon=True)
    thread.start()
    thread.join(WARM_SECONDS)


def _start_worker(spark: SparkContext, for_rows: bool) -> None:
    try:
        if for_rows:
            SparkSession(spark).range(0, 1, 1, 1).mapInArrow(_same, "id long").collect()
        else:
            spark.parallelize([0], 1).map(_nothing).collect()
    except Exception as error:  # the first batch will say it
        log.debug("no worker was started beforehand", exc_info=error)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _nothing(_: int) -> None:
    """A task that does nothing."""
