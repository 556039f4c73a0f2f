"""The Spark of a driver: what a submitter configured stands, the rest suits batches."""

# ruff: noqa: TID253 -- imported only once there is something to read

import os
import re
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidemark.errors import TidemarkError
from tidemark.spark._log_file import named_log_file, own_folder, start_jvm
from tidemark.spark.cluster import Cluster, is_elsewhere, zip_project
from tidemark.spark.errors import SparkNotStarted
from tidemark.spark.java_options import LATE, LAUNCHER, OPTIONS, QUICK, with_archive

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "tidemark.spark.daemon",
}
"""Set where spark-submit, spark-defaults.conf or the connection set nothing."""

FIXED = {
    "spark.sql.session.timeZone": "UTC",  # a transform gives the same rows on every machine
    "spark.ui.showConsoleProgress": "false",  # spark-submit turns it on for Python; logs are read
    # Rows that a stage computed again puts in other places are lost, or there twice: the job fails.
    "spark.sql.execution.sortBeforeRepartition": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    # It ends the read of one side of a join when the other side turns out to be empty.
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    ),
}
"""Set always."""

LOCAL_TRIES = 3


def context(name: str, *, for_rows: bool = True, cluster: Cluster | None = None) -> SparkContext:
    """The running context, or a new one called `name`.

    No secret of Kafka or Postgres is in its configuration. A JVM that spark-submit has not started
    is started with java_options.py. A SparkSession costs seconds more: it is for transforms.

    Raises:
        JobFailed: Spark does not start.
        InvalidSettings: the cluster's connection lacks something, see `Cluster.settings`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER)
    cluster = cluster or Cluster()
    own = LATE if for_rows or cluster.is_elsewhere else QUICK
    os.environ[OPTIONS] = with_archive(os.environ.get(OPTIONS, own))
    try:
        start_jvm()  # only then does SparkConf know what spark-submit set
        return _context(SparkConf().setAppName(name), cluster)
    except TidemarkError:
        raise
    except Exception as error:
        line = str(error).strip().partition("\n")[0]
        raise SparkNotStarted(cause=line, log=named_log_file()) from error


def _context(conf: SparkConf, cluster: Cluster) -> SparkContext:
    master = retrying(conf.get("spark.master", "local[*]"))
    conf.setMaster(master)
    if is_elsewhere(master):
        os.environ["PYSPARK_PYTHON"] = cluster.python or os.environ["PYSPARK_PYTHON"]
        conf.setAll(list(cluster.settings(master, dict(conf.getAll())).items()))
    else:  # a shuffle writes rows, which only clusters encrypt
        conf.setIfMissing("spark.local.dir", own_folder())
    for key, value in DEFAULTS.items():
        conf.setIfMissing(key, value)
    found = SparkContext.getOrCreate(conf.setAll(list(FIXED.items())))
    found.setLogLevel("WARN")
    if is_elsewhere(master) and cluster.project:
        found.addPyFile(str(zip_project(cluster.project, Path(found._temp_dir))))
    return found


def session(name: str) -> SparkSession:
    """The session of the running context, or of a new one called `name`."""
    return SparkSession(context(name))


def retrying(master: str) -> str:
    """Let a local master try each task three times, as a cluster tries it four times.

    Spark's own local master gives up at the first killed Python worker.
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{local[1] or 1},{LOCAL_TRIES}]" if local else master
