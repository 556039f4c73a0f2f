"""Java's archive of Spark's classes: a JVM that maps it starts with half the CPU time.

Most of what a start of Spark costs is the loading of some ten thousand classes. Java can map them
as an earlier JVM had them (class data sharing, JEP 350). An archive belongs to one Java and one
pyspark; a JVM to which it does not belong leaves it aside and loads as ever.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tidemark.spark.errors import SparkArchiveRefused
from tidemark.spark.java_options import OPTIONS, QUICK, SILENT, archive

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


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
        os.environ[OPTIONS] = f'"-XX:ArchiveClassesAtExit={new}" {QUICK} {SILENT}'
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

    from tidemark.spark.session import session

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

    from tidemark.spark._plans import as_source, refuse_cuts

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
