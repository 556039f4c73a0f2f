"""What the JVM of a driver is started with."""

import os
import sys
from pathlib import Path

import pytest

from tidemark.spark import archive, session
from tidemark.spark.errors import SparkNotStarted
from tidemark.spark.session import PATIENT, QUICK, context

NAMES = (archive.OPTIONS, "PYSPARK_PYTHON", "SPARK_LAUNCHER_OPTS")
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


def options(*, for_rows: bool = False) -> str:
    """What a JVM would be started with."""
    with pytest.raises(SparkNotStarted) as caught:
        context("test", for_rows=for_rows)
    assert caught.value.cause == "not here"
    return os.environ[archive.OPTIONS]


@pytest.mark.parametrize(("for_rows", "expected"), [(True, PATIENT), (False, QUICK)])
def test_a_jvm_compiles_for_what_passes_through_it(for_rows: bool, expected: str) -> None:
    assert options(for_rows=for_rows) == expected


@pytest.mark.parametrize("given", ["-Xmx512m", "-Xshare:off"])
def test_options_that_are_set_stand(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(archive.OPTIONS, given)
    assert options().startswith(given)


def test_an_archive_is_used_if_it_is_there_and_no_other_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = archive.archive()
    made.parent.mkdir(parents=True)
    made.touch()
    first = options()
    assert first.startswith(f'{QUICK} "-XX:SharedArchiveFile={made}"')
    assert options() == first
    monkeypatch.setenv(archive.OPTIONS, "-Xshare:off")
    assert options() == "-Xshare:off"
