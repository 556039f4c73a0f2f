"""How the JVM of a driver is started."""

import os
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from tidemark.errors import JobFailed
from tidemark.spark import archive, words
from tidemark.spark.session import QUICK, context


@pytest.fixture(autouse=True)
def not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Stop before a JVM is started: what it would be given stands in the environment."""

    def start(**_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(words, "launch_gateway", start)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")


def options(*, for_rows: bool) -> str:
    """What a JVM would be started with."""
    with pytest.raises(JobFailed, match="Spark did not start"):
        context("test", for_rows=for_rows)
    return os.environ["SPARK_SUBMIT_OPTS"]


def test_only_a_jvm_that_no_row_passes_through_compiles_less() -> None:
    assert options(for_rows=True) == ""
    del os.environ["SPARK_SUBMIT_OPTS"]
    assert options(for_rows=False) == QUICK


def test_options_that_are_set_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmx512m")
    assert options(for_rows=False) == "-Xmx512m"


def test_an_archive_is_used_if_it_is_there(tmp_path: Path) -> None:
    made = archive.archive()
    made.parent.mkdir(parents=True)
    made.touch()
    first = options(for_rows=False)
    assert first.startswith(f'{QUICK} "-XX:SharedArchiveFile={made}"')
    assert options(for_rows=False) == first


def test_two_that_make_the_archive_at_once_leave_one_whole_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    makers = iter(("first", "second"))

    def run_spark() -> None:
        maker = next(makers)
        own = Path(os.environ["SPARK_SUBMIT_OPTS"].split('"')[1].partition("=")[2])
        own.write_text(maker)
        if maker == "first":
            archive.make_archive()
            assert archive.archive().read_text() == "second"
            assert own.read_text() == "first"

    monkeypatch.setattr(archive, "_run_spark", run_spark)
    monkeypatch.setattr(archive, "try_archive", lambda _: None)
    made = archive.make_archive()
    assert made.read_text() == "first"
    assert {*made.parent.iterdir()} == {made, made.with_suffix(".java")}
    assert archive.is_current(made)
    monkeypatch.setenv("JAVA_HOME", "/another")
    assert not archive.is_current(made)


def test_an_archive_of_the_users_own_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    archive.archive().parent.mkdir(parents=True)
    archive.archive().touch()
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xshare:off")
    assert options(for_rows=False) == "-Xshare:off"
