"""What the JVM of a driver is started with."""

import os
import sys
from pathlib import Path

import pytest

from tidemark.settings.connections import Connection
from tidemark.spark import session
from tidemark.spark.cluster import Cluster
from tidemark.spark.errors import SparkNotStarted
from tidemark.spark.java_options import LATE, OPTIONS, QUICK, archive
from tidemark.spark.session import context

NAMES = (OPTIONS, "PYSPARK_PYTHON", "SPARK_LAUNCHER_OPTS")
"""Variables that a start sets."""


@pytest.fixture(autouse=True)
def not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stop before a JVM is started: what it would be given stands in the environment."""

    def start_jvm() -> None:
        raise InterruptedError("not here")

    monkeypatch.setattr(session, "start_jvm", start_jvm)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    for name in NAMES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


ELSEWHERE = Cluster(Connection("spark", "spark", host="spark://there", port=7077))


def options(*, for_rows: bool = False, cluster: Cluster | None = None) -> str:
    """What a JVM would be started with."""
    with pytest.raises(SparkNotStarted) as caught:
        context("test", for_rows=for_rows, cluster=cluster)
    assert caught.value.cause == "not here"
    return os.environ[OPTIONS]


@pytest.mark.parametrize(
    ("for_rows", "cluster", "expected"),
    [(True, None, LATE), (False, None, QUICK), (True, ELSEWHERE, LATE), (False, ELSEWHERE, LATE)],
)
def test_only_a_jvm_that_no_row_passes_and_that_encrypts_nothing_compiles_little(
    for_rows: bool, cluster: Cluster | None, expected: str
) -> None:
    assert options(for_rows=for_rows, cluster=cluster) == expected


@pytest.mark.parametrize("given", ["-Xmx512m", "-Xshare:off"])
def test_options_that_are_set_stand(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(OPTIONS, given)
    assert options().startswith(given)


def test_an_archive_is_used_if_it_is_there_and_no_other_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = archive()
    made.parent.mkdir(parents=True)
    made.touch()
    first = options()
    assert first.startswith(f'{QUICK} "-XX:SharedArchiveFile={made}"')
    assert options() == first
    monkeypatch.setenv(OPTIONS, "-Xshare:off")
    assert options() == "-Xshare:off"
