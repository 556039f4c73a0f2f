"""How the JVM of a driver is started."""

import os

import pytest
from pyspark import SparkContext

from tidemark.errors import JobFailed
from tidemark.spark import words
from tidemark.spark.session import QUICK, context


@pytest.fixture(autouse=True)
def not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop before a JVM is started: what it would be given stands in the environment."""

    def start(**_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(words, "launch_gateway", start)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")


@pytest.mark.parametrize(("for_rows", "options"), [(False, QUICK), (True, None)])
def test_only_a_jvm_that_no_row_passes_through_compiles_less(
    for_rows: bool, options: str | None
) -> None:
    with pytest.raises(JobFailed, match="Spark did not start"):
        context("test", for_rows=for_rows)
    assert os.environ.get("SPARK_SUBMIT_OPTS") == options


def test_options_that_are_set_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmx512m")
    with pytest.raises(JobFailed, match="Spark did not start"):
        context("test", for_rows=False)
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Xmx512m"
