"""Jars: fetched from Maven Central with the Ivy inside PySpark, checked, cached.

A manifest such as `kafka.jars` names every jar with its SHA-256, so nothing is resolved and
nothing else is run.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidemark.local.java import java
from tidemark.local.watch import NotStarted, Watch

KAFKA_VERSION = "4.1.0"
CENTRAL = "https://repo1.maven.org/maven2/"
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact by its Maven coordinates."""

    sha256: str
    group: str
    module: str
    version: str

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.module}-{self.version}.jar"

    def is_in(self, folder: Path) -> bool:
        """Whether the folder holds exactly this jar."""
        path = folder / self.file
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256

    def __str__(self) -> str:
        """As Maven writes it."""
        return f"{self.group}:{self.module}:{self.version}"


def manifest() -> list[Jar]:
    """The jars that make the broker."""
    return named_in(files("tidemark.local").joinpath("kafka.jars").read_text())


def named_in(text: str) -> list[Jar]:
    """The jars that a manifest names: a line each, SHA-256 and Maven coordinates."""
    lines = (line.split() for line in text.splitlines())
    return [Jar(sum_, *name.split(":")) for sum_, name in lines]


def kafka_jars(watch: Watch) -> Path:
    """A folder that holds all of Kafka's jars; see `fetched`."""
    return fetched(f"kafka-{KAFKA_VERSION}", manifest(), watch)


def fetched(name: str, jars: Sequence[Jar], watch: Watch) -> Path:
    """The cache's folder `name`, which holds all the jars, each with its checksum verified.

    If it is cut short the cache holds only whole, verified folders; the next call goes on.

    Raises:
        NotStarted: an artifact cannot be fetched or differs from its checksum; names it.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / name
    with (cache / "lock").open("w") as lock:
        watch.until(lambda: _lock(lock.fileno()), within=900, otherwise=f"{cache} stays locked")
        if _missing(jars, target):
            _fetch(target, jars, watch)
    return target


def cache_folder() -> Path:
    """Where fetched files are kept for all stacks of this user."""
    if chosen := os.environ.get("TIDEMARK_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tidemark"


def _fetch(target: Path, jars: Sequence[Jar], watch: Watch) -> None:
    part = target.with_name(f"{target.name}.part")
    part.mkdir(exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        _ask_ivy(part, _missing(jars, part / "jars"), watch)
        missing = _missing(jars, part / "jars")
        if not missing:
            break
        if attempt == ATTEMPTS:
            raise NotStarted(_not_fetched(missing, part / "ivy.log"))
        watch.tell("jars", f"{_names(missing)} not fetched, trying again ({attempt})")
        watch.sleep(2**attempt)
    shutil.rmtree(target, ignore_errors=True)
    (part / "jars").rename(target)
    shutil.rmtree(part)


def _ask_ivy(part: Path, wanted: Sequence[Jar], watch: Watch) -> None:
    """What Ivy could get of the wanted jars is in `part/jars`; its failure is not raised."""
    cache = part / "cache"
    shutil.rmtree(cache, ignore_errors=True)  # a damaged file must not come back from it
    (part / "ivy.xml").write_text(_module(wanted))
    (part / "settings.xml").write_text(_settings())
    argv: list[str | Path] = [java(), "-jar", _ivy(), "-confs", "default", "-cache", cache]
    argv += ["-settings", part / "settings.xml", "-ivy", part / "ivy.xml"]
    counter = _Counter(cache, len(wanted), watch)
    with suppress(NotStarted):
        watch.run(argv, what="Ivy", log=part / "ivy.log", meanwhile=counter)
    (part / "jars").mkdir(exist_ok=True)
    for jar in wanted:
        fetched = cache / jar.group / jar.module / "jars" / jar.file
        if fetched.exists():
            fetched.replace(part / "jars" / jar.file)


@dataclass(slots=True)
class _Counter:
    """Tells how many jars have come, when that has changed, at most every two seconds."""

    cache: Path
    wanted: int
    watch: Watch
    looked: float = 0
    seen: int = -1

    def __call__(self) -> None:
        if time.monotonic() - self.looked < 2:
            return
        self.looked = time.monotonic()
        here = sum(1 for _ in self.cache.rglob("*.jar"))
        if here != self.seen:
            self.watch.tell("jars", f"fetching: {here} of {self.wanted} have come")
            self.seen = here


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not jar.is_in(folder)]


def _names(jars: Sequence[Jar]) -> str:
    more = f" and {len(jars) - 3} more" if len(jars) > 3 else ""
    return ", ".join(str(jar) for jar in jars[:3]) + more


def _not_fetched(missing: Sequence[Jar], log: Path) -> str:
    where = os.environ.get("TIDEMARK_MAVEN", CENTRAL)
    return (
        f"{_names(missing)} cannot be fetched from {where} or differs from its SHA-256; "
        f"check the network or set TIDEMARK_MAVEN to a mirror (all of it: {log})"
    )


def _module(jars: Sequence[Jar]) -> str:
    lines = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.module)} "
        f'rev={quoteattr(jar.version)} transitive="false" conf="default">'
        f'<artifact name={quoteattr(jar.module)} type="jar" ext="jar"/></dependency>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{lines}</dependencies></ivy-module>"
    )


def _settings() -> str:
    root = quoteattr(os.environ.get("TIDEMARK_MAVEN", CENTRAL))
    return (
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        '<ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" '
        f'checksums="" root={root}/></resolvers></ivysettings>'
    )


def _ivy() -> Path:
    spec = find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [jar for place in places for jar in Path(place).glob("jars/ivy-*.jar")]
    if not found:
        raise NotStarted("pyspark is not installed: its Ivy fetches jars (tidemark[spark,local])")
    return found[0]


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
