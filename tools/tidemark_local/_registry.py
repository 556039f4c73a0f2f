"""A real schema registry on this machine: Apicurio Registry, which speaks Confluent's API too."""

import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from tidemark_local._folder import Folder
from tidemark_local._jars import LOCK_SECONDS, Jar, fetched
from tidemark_local.daemon import Daemon, answer_of, java, serve
from tidemark_local.errors import ServiceNotReady
from tidemark_local.watch import Watch

ARCHIVE = Jar(
    sha256="2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
    group="io.apicurio",
    module="apicurio-registry-app",
    version="3.0.9",
    ending="-all.tar.gz",
)
"""Fetched when a registry is first asked for."""
ARCHIVE_MB = 109
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class LocalRegistry:
    """One process; its schemas lie in the stack's folder."""

    ports = ("registry",)

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._daemon = Daemon(folder, "registry")
        self._home = folder.root / "registry"

    @property
    def url(self) -> str:
        """What a registry connection's host must say."""
        return f"http://127.0.0.1:{self._folder.port('registry')}/apis/ccompat/v7"

    @property
    def pid(self) -> int | None:
        """The running registry's process id."""
        return self._daemon.pid

    def start(self, watch: Watch | None = None) -> bool:
        """The registry answers; False if it already ran. It goes on with the schemas it has.

        Raises:
            NotStarted: Java or the archive is missing, or it ended; says where its log is.
        """
        if self._daemon.process is not None:
            return False
        watch = watch or Watch()
        self._daemon.clear()
        runtime, program = java(), unpacked(watch)
        self._folder.private(self._home.name)
        argv: list[str | Path] = [runtime, *OPTIONS, "-jar", program]

        def launch() -> None:
            watch.tell("registry", "starting it")
            self._daemon.start(argv, env=self._environment(), cwd=self._home)
            silent = ServiceNotReady(service="the registry", log=self._daemon.log, seconds=120)
            watch.until(self._answers, silent)

        serve(self._folder, self.ports, launch, self.stop, watch)
        return True

    def stop(self) -> None:
        """It does not run."""
        self._daemon.stop()
        self._daemon.clear()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._folder.port("registry")),
            "QUARKUS_LOG_LEVEL": "WARN",
            "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{self._home}/schemas",
        }

    def _answers(self) -> bool:
        self._daemon.must_run()
        is_answered = answer_of(f"{self.url}/schemas/types") is not None
        return is_answered and self._daemon.listens(self._folder.port("registry"))


def unpacked(watch: Watch) -> Path:
    """The program that starts it, in the cache; its checksum was verified before it was unpacked.

    Raises:
        NotStarted: it cannot be fetched; names it.
    """
    name = f"registry-{ARCHIVE.version}"
    cache = fetched(name, [ARCHIVE], ARCHIVE_MB, watch)
    program = cache / "program" / f"{ARCHIVE.module}-{ARCHIVE.version}-runner.jar"
    with FileLock(cache.with_name(f"{name}.unpack.lock"), timeout=LOCK_SECONDS):
        if not program.exists():
            _unpack(cache / ARCHIVE.file, program.parent)
    return program


def _unpack(archive: Path, folder: Path) -> None:
    """The folder holds all of the archive, or is not there."""
    with TemporaryDirectory(dir=folder.parent) as place, tarfile.open(archive) as packed:
        whole = Path(place) / "whole"
        packed.extractall(whole, filter="data")
        whole.rename(folder)
