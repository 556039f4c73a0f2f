"""The Spark of a driver: what a submitter configured stands, the rest suits batches.

Java's archive of Spark's classes: a JVM that maps it starts with half the CPU time.

Most of what a start of Spark costs is the loading of some ten thousand classes. Java can map them
as an earlier JVM had them (class data sharing, JEP 350). An archive belongs to one Java and one
pyspark; a JVM to which it does not belong leaves it aside and loads as ever.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidemark.errors import TidemarkError
from tidemark.spark.cluster import Cluster, is_elsewhere, zip_project
from tidemark.spark.errors import SparkArchiveRefused, SparkNotStarted
from tidemark.spark.words import own_folder, start_jvm, told_file

if TYPE_CHECKING:
    import pyarrow as pa


OPTIONS = "SPARK_SUBMIT_OPTS"
"""What spark-submit, and pyspark, give the driver's JVM."""
SILENT = "-Xlog:cds*=off"
"""Java warns of an archive that it can't use. What else a user has it log stands."""


def archive() -> Path:
    """Where the archive of the installed Spark stands, if somebody has made it."""
    return Path(sys.prefix) / "share" / "tidemark" / f"spark-{version('pyspark')}.jsa"


def with_archive(options: str) -> str:
    """The options of the driver's JVM, and the archive if one was made and they name none."""
    path = archive()
    if "-Xshare" in options or "Archive" in options or not path.exists():
        return options
    return f'{options} "-XX:SharedArchiveFile={path}" {SILENT}'.lstrip()


def is_current(path: Path) -> bool:
    """Whether the archive is there, and this machine's Java made it."""
    note = _note(path)
    return path.exists() and note.exists() and note.read_text() == _java()


def keep(new: Path, path: Path) -> Path:
    """The new archive stands at the path, with a note of the Java that made it."""
    _note(path).write_text(_java())
    return new.replace(path)


def make_archive() -> Path:
    """The archive exists, as the JVM of a small job left it; this process has run Spark.

    Several may make it at once: each makes its own, and the last one stands.

    Raises:
        JobFailed: Spark did not run, or does not start from what it left.
    """
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder) / path.name
        os.environ[OPTIONS] = f'"-XX:ArchiveClassesAtExit={new}" -XX:TieredStopAtLevel=1 {SILENT}'
        _run_spark()
        try_archive(new)
        return keep(new, path)


def try_archive(path: Path) -> None:
    """A JVM starts from the archive: one that is cut off would crash each of them.

    Raises:
        JobFailed: it does not; the file is deleted.
    """
    driver = "from tidemark.spark.session import context; context('tidemark archive')"
    tried = subprocess.run(  # noqa: S603 (our own program)
        [sys.executable, "-c", driver],
        env=os.environ | {OPTIONS: f'"-XX:SharedArchiveFile={path}"'},
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode or not path.exists():
        path.unlink(missing_ok=True)
        last = tried.stderr.strip().rpartition("\n")[2]
        raise SparkArchiveRefused(path=str(path), cause=last)


def _note(path: Path) -> Path:
    return path.with_suffix(".java")


def _java() -> str:
    """What the Java that runs Spark says of itself; empty where there is none."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    try:
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return f"{command}\n{told.stderr}"


def _run_spark() -> None:
    """Load what batches load: a job without rows in the JVM, and one through a transform."""
    from pyspark import SparkContext

    spark = session("tidemark archive")
    spark.sparkContext.parallelize([1, 2], 2).map(abs).collect()
    _transform(spark)
    gateway = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # it writes the archive as its last act


def _transform(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F

    from tidemark.spark.plans import as_source, refuse_cuts

    numbers = spark.range(0, 4, 1, 2).mapInArrow(_same, "id long")
    rows = as_source(numbers, F.collect_set("id").alias("marks")).withColumn(
        "even", F.col("id") % 2
    )
    refuse_cuts(rows)
    rows.where("even = 0").mapInArrow(_same, rows.schema).collect()


def _same(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    yield from batches


def main() -> None:
    """The archive is there, made now if it has to be."""
    if is_current(archive()):
        return
    print(
        "tidemark: making Java's archive of Spark's classes, 150 MB (once for each Java)",
        flush=True,
    )
    print(f"tidemark: Spark will start from {make_archive()}")


if __name__ == "__main__":
    main()


# ruff: noqa: TID253 -- imported only once there is something to read


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
    # It ends the read of one side of a join when the other side turns out to be empty.
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    ),
}
"""Set always."""

QUICK = "-XX:TieredStopAtLevel=1"
"""Java's options for a JVM that only schedules: half the CPU time until the first task runs.

Not where it also encrypts: that compiler knows no instructions for AES.
"""

LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's options for the JVM that only composes the driver's command line: 0.15 s of CPU time."""

LOCAL_TRIES = 3


def context(name: str, *, for_rows: bool = True, cluster: Cluster | None = None) -> SparkContext:
    """The running context, or a new one called `name`.

    No secret of Kafka or Postgres is in its configuration. Where no row passes through the JVM it
    is started to start quickly. A SparkSession costs seconds more: it is for transforms.

    Raises:
        JobFailed: Spark does not start.
        InvalidSettings: the cluster's connection lacks something, see `Cluster.settings`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER)
    cluster = cluster or Cluster()
    quick = "" if for_rows or cluster.is_elsewhere else QUICK
    os.environ[OPTIONS] = with_archive(os.environ.get(OPTIONS, quick))
    try:
        start_jvm()  # only then does SparkConf know what spark-submit set
        return _context(SparkConf().setAppName(name), cluster)
    except TidemarkError:
        raise
    except Exception as error:
        line = str(error).strip().partition("\n")[0]
        raise SparkNotStarted(cause=line, log=told_file()) from error


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
    """The same master; a local one gives each task three tries, as a cluster gives it four.

    Spark's own local master gives up at the first killed Python worker.
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{local[1] or 1},{LOCAL_TRIES}]" if local else master
