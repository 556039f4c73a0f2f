"""The Spark session of a driver: what a submitter configured stands, the rest suits batches."""
# ruff: noqa: TID253 -- imported only once there is something to read

import os
import sys

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.master": "local[2,3]",  # two cores; a task may fail twice, as on a cluster
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Set where spark-submit, spark-defaults.conf or the connection set nothing."""

FIXED = {
    "spark.sql.session.timeZone": "UTC",  # a transform gives the same rows on every machine
    "spark.ui.showConsoleProgress": "false",  # spark-submit turns it on for Python; logs are read
}
"""Set always."""


def session(name: str) -> SparkSession:
    """The running session, or a new one called `name`; no secret is in its configuration."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    SparkContext._ensure_initialized()  # only then does SparkConf know what spark-submit set
    conf = SparkConf().setAppName(name)
    for key, value in DEFAULTS.items():
        conf.setIfMissing(key, value)
    spark = SparkSession.builder.config(conf=conf.setAll(FIXED.items())).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark
