"""The archive of Spark's classes: a driver's JVM maps it, and one that is no good harms nobody."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.spark.archive import try_archive
from tidemark.spark.errors import SparkArchiveRefused
from tidemark.spark.java_options import (
    LATE,
    LAUNCHER,
    OPTIONS,
    QUICK,
    archive,
    with_archive,
)
from tidemark_local.daemon import java

pytestmark = pytest.mark.spark

DRIVER = """
from pathlib import Path
from tidemark.spark.session import context
spark = context("archive", for_rows=False)
[jvm] = [line.split("@")[0] for line in [spark._jvm.java.lang.management.ManagementFactory
         .getRuntimeMXBean().getName()]]
print(spark.parallelize([1, 2, 3], 1).sum(), ".jsa" in Path(f"/proc/{jvm}/maps").read_text())
"""


def driver(words: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A driver in a process of its own, to its end."""
    env = {name: value for name, value in os.environ.items() if name != OPTIONS}
    env |= {"TIDEMARK_SPARK_LOG": str(words), "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    argv = [sys.executable, "-c", DRIVER]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("options", [QUICK, LATE, LAUNCHER])
def test_java_knows_and_takes_the_options_of_a_driver(options: str) -> None:
    argv = [str(java()), *options.split(), "-XX:+PrintFlagsFinal", "-version"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    taken = {line.split()[1]: line.split()[3] for line in shown.splitlines() if "{" in line}
    for option in options.replace("+UseSerialGC", "UseSerialGC=true").split():
        name, value = option.removeprefix("-XX:").split("=")
        assert taken[name] == value


def test_what_a_user_has_java_log_stands(tmp_path: Path) -> None:
    log = tmp_path / "gc.log"
    options = shlex.split(with_archive(f"-Xlog:gc:file={log}"))
    subprocess.run([java(), *options, "-version"], capture_output=True, check=True)
    assert log.read_text()


def test_an_archive_that_was_cut_off_is_deleted_before_it_is_used(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsa"
    cut.write_bytes(archive().read_bytes()[:100_000])
    with pytest.raises(SparkArchiveRefused) as refused:
        try_archive(cut)
    assert refused.value.path == str(cut)
    assert not cut.exists()
