"""Kafka's jars come checked or not at all."""

import hashlib
from pathlib import Path

import pytest

from tidemark.local import jars, java
from tidemark.local.watch import NotStarted, Watch


def test_the_manifest_names_the_broker_of_the_pinned_version() -> None:
    names = [str(jar) for jar in jars.manifest()]
    assert f"org.apache.kafka:kafka_2.13:{jars.KAFKA_VERSION}" in names
    assert len(set(names)) == len(names)
    assert all(len(jar.sha256) == 64 for jar in jars.manifest())


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one jar in it, as the manifest says, and no pause between attempts."""
    content = b"a jar"
    jar = jars.Jar(hashlib.sha256(content).hexdigest(), "org.example", "thing", "1.0")
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "manifest", lambda: [jar])
    monkeypatch.setattr(Watch, "sleep", lambda self, seconds: None)
    folder = tmp_path / f"kafka-{jars.KAFKA_VERSION}"
    folder.mkdir()
    (folder / jar.file).write_bytes(content)
    return folder


def test_what_is_cached_is_not_fetched_again(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_ask_ivy", lambda *_: pytest.fail("asked Ivy"))
    assert jars.kafka_jars(Watch()) == cached


def test_an_artifact_that_cannot_be_had_is_named(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cached / "thing-1.0.jar").write_bytes(b"damaged")
    asked: list[Path] = []
    monkeypatch.setattr(jars, "_ask_ivy", lambda part, *_: asked.append(part))
    with pytest.raises(NotStarted, match=r"org\.example:thing:1\.0 cannot be fetched .* SHA-256"):
        jars.kafka_jars(Watch())
    assert len(asked) == jars.ATTEMPTS


def test_a_damaged_jar_is_fetched_anew(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(part: Path, wanted: list[jars.Jar], watch: Watch) -> None:
        assert [str(jar) for jar in wanted] == ["org.example:thing:1.0"]
        (part / "jars").mkdir()
        (part / "jars" / "thing-1.0.jar").write_bytes(b"a jar")

    (cached / "thing-1.0.jar").write_bytes(b"damaged")
    monkeypatch.setattr(jars, "_ask_ivy", fetch)
    assert (jars.kafka_jars(Watch()) / "thing-1.0.jar").read_bytes() == b"a jar"


@pytest.mark.parametrize(
    ("told", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("what?", 0),
    ],
)
def test_java_says_its_version(tmp_path: Path, told: str, major: int) -> None:
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    command.chmod(0o755)
    assert java._major(command) == major


def test_an_old_java_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_java_says_its_version(tmp_path, 'openjdk version "11.0.2"', 11)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NotStarted, match=r"is Java 11: install one") as caught:
        java.java()
    assert "\n" not in str(caught.value)


def test_a_missing_java_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(NotStarted, match="none was found: install one"):
        java.java()
