"""Kafka's jars come checked or not at all."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tidemark_local import _jars, daemon
from tidemark_local.errors import JarNotFetched, JavaMissing
from tidemark_local.watch import Watch


def test_the_manifest_names_the_broker_of_the_pinned_version() -> None:
    names = [str(jar) for jar in _jars.manifest()]
    assert f"org.apache.kafka:kafka_2.13:{_jars.KAFKA_VERSION}" in names
    assert len(set(names)) == len(names)
    assert all(len(jar.sha256) == 64 for jar in _jars.manifest())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Maven repository with one jar, served on loopback, and a cache that holds nothing."""
    content = b"a jar"
    jar = _jars.Jar(hashlib.sha256(content).hexdigest(), "org.example", "thing", "1.0")
    served = tmp_path / "served" / jar.path
    served.parent.mkdir(parents=True)
    served.write_bytes(content)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("TIDEMARK_MAVEN", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(_jars, "manifest", lambda: [jar])
        monkeypatch.setattr(_jars, "RETRIES", 0)
        yield served
        server.shutdown()


def test_what_is_cached_is_not_fetched_again(repository: Path) -> None:
    folder = _jars.kafka_jars(Watch())
    repository.unlink()
    assert _jars.kafka_jars(Watch()) == folder
    assert [path.name for path in folder.iterdir()] == ["thing-1.0.jar"]


@pytest.mark.parametrize("fault", ["absent", "damaged"])
def test_an_artifact_that_cannot_be_had_is_named(repository: Path, fault: str) -> None:
    repository.unlink() if fault == "absent" else repository.write_bytes(b"damaged")
    with pytest.raises(JarNotFetched) as refused:
        _jars.kafka_jars(Watch())
    assert refused.value.jar == "org.example:thing:1.0"
    assert not [*_jars.cache_folder().rglob("*.jar")]


def test_a_damaged_jar_is_fetched_anew(repository: Path) -> None:
    jar = _jars.kafka_jars(Watch()) / "thing-1.0.jar"
    jar.write_bytes(b"damaged")
    _jars.kafka_jars(Watch())
    assert jar.read_bytes() == repository.read_bytes()


@pytest.fixture
def saying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes the Java of this machine one that says this of its version."""

    def make(told: str) -> Path:
        command = tmp_path / "bin" / "java"
        command.parent.mkdir()
        command.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
        command.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return command

    return make


@pytest.mark.parametrize(
    "told", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19']
)
def test_a_java_that_is_new_enough_is_taken(saying: Callable[[str], Path], told: str) -> None:
    command = saying(told)
    assert daemon.java() == command


@pytest.mark.parametrize(
    ("told", "version"),
    [('openjdk version "11.0.2"', 11), ('java version "1.8.0_392"', 8), ("what?", 0)],
)
def test_an_old_java_is_refused_with_its_version(
    saying: Callable[[str], Path], told: str, version: int
) -> None:
    command = saying(told)
    with pytest.raises(JavaMissing) as caught:
        daemon.java()
    assert (caught.value.found, caught.value.version) == (command, version)


def test_a_missing_java_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(JavaMissing) as caught:
        daemon.java()
    assert caught.value.found is None
