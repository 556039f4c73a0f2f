"""Jars from Maven Central: fetched, checked by SHA-256, kept for all stacks of this user.

A manifest such as `kafka.jars` names every jar with its SHA-256: nothing is resolved, and nothing
that was fetched is run before its checksum was compared.
"""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pooch
from filelock import FileLock

from tidemark_local.errors import JarNotFetched
from tidemark_local.watch import Watch

KAFKA_VERSION = "4.1.0"
KAFKA_MB = 44
CENTRAL = "https://repo1.maven.org/maven2/"
RETRIES = 5
AT_ONCE = 4
LOCK_SECONDS = 900
"""Longer than another process needs for all jars on a slow line."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact by its Maven coordinates."""

    sha256: str
    group: str
    module: str
    version: str
    ending: str = ".jar"
    """Classifier and type, as its file name ends."""

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.module}-{self.version}{self.ending}"

    @property
    def path(self) -> str:
        """Its place in a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.module}/{self.version}/{self.file}"

    def __str__(self) -> str:
        """As Maven writes it."""
        return f"{self.group}:{self.module}:{self.version}"


def manifest() -> list[Jar]:
    """The jars that make the broker."""
    return named_in(files("tidemark_local").joinpath("kafka.jars").read_text())


def named_in(text: str) -> list[Jar]:
    """The jars that a manifest names: a line each, SHA-256 and Maven coordinates."""
    lines = (line.split() for line in text.splitlines())
    return [Jar(sum_, *name.split(":")) for sum_, name in lines]


def kafka_jars(watch: Watch) -> Path:
    """A folder that holds all of Kafka's jars; see `fetched`."""
    return fetched(f"kafka-{KAFKA_VERSION}", manifest(), KAFKA_MB, watch)


def fetched(name: str, jars: Sequence[Jar], megabytes: int, watch: Watch) -> Path:
    """The cache's folder `name`, which holds all the jars, each with its checksum verified.

    What is fetched is told, with the size of all: megabytes of a million bytes.

    If it is cut short the cache holds only whole, verified jars; the next call goes on.

    Raises:
        NotStarted: an artifact cannot be fetched or differs from its checksum; names it.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    store = _store(cache / name, jars)
    with FileLock(cache / f"{name}.lock", timeout=LOCK_SECONDS), ThreadPoolExecutor(AT_ONCE) as few:
        is_here = all((cache / name / jar.file).exists() for jar in jars)
        if not is_here:
            what = f"{name}, {len(jars)} files of {megabytes} MB"
            watch.tell("jars", f"fetching {what} from {_repository()}")
        for count, _ in enumerate(few.map(lambda jar: _fetch(store, jar), jars), start=1):
            if count % 10 == 0 and not is_here:
                watch.tell("jars", f"{count} of {len(jars)} are here")
    return cache / name


def cache_folder() -> Path:
    """Where fetched files are kept for all stacks of this user."""
    if chosen := os.environ.get("TIDEMARK_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tidemark"


def _store(folder: Path, jars: Sequence[Jar]) -> pooch.Pooch:
    pooch.get_logger().setLevel(logging.WARNING)
    return pooch.create(
        path=folder,
        base_url=_repository(),
        registry={jar.file: f"sha256:{jar.sha256}" for jar in jars},
        urls={jar.file: _repository() + jar.path for jar in jars},
        retry_if_failed=RETRIES,
    )


def _fetch(store: pooch.Pooch, jar: Jar) -> None:
    try:
        store.fetch(jar.file)
    except (ValueError, OSError) as error:
        raise JarNotFetched(
            jar=str(jar), repository=_repository(), cause=type(error).__name__
        ) from error


def _repository() -> str:
    return os.environ.get("TIDEMARK_MAVEN", CENTRAL).rstrip("/") + "/"
