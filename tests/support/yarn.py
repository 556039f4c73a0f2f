"""Hadoop YARN on this machine: a resource manager and a node manager, Hadoop's own daemons.

Their classes come from Maven Central in one jar; what else they need PySpark ships. Files lie on
the local disk: there is no HDFS.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import httpx
import psutil

from tidemark_local._folder import Folder
from tidemark_local._jars import fetched, named_in
from tidemark_local._spark import spark_home
from tidemark_local.daemon import Daemon, family, java, serve
from tidemark_local.errors import ServiceNotReady
from tidemark_local.watch import Watch

JARS = Path(__file__).with_name("yarn.jars")
DAEMONS = {
    "resource-manager": "resourcemanager.ResourceManager",
    "node-manager": "nodemanager.NodeManager",
}
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PORTS = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
PAGES = ("webapp", "node", "localizer", "node-webapp")
SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}


class Yarn:
    """Two daemons and the configuration that leads a client to them."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._home = folder.root / "yarn"
        self._daemons = {name: Daemon(folder, name) for name in DAEMONS}

    @property
    def configuration(self) -> str:
        """What a client's HADOOP_CONF_DIR must be."""
        return str(self._home)

    def start(self) -> None:
        """The resource manager knows its node."""
        watch = Watch()
        jars = fetched("hadoop-3.5.0", named_in(JARS.read_text()), 67, watch)
        self._home.mkdir()
        names = [f"yarn-{name}" for name in PORTS + PAGES]
        serve(self._folder, names, lambda: self._launch(jars, watch), self.stop, watch)

    def _launch(self, jars: Path, watch: Watch) -> None:
        self._write("core-site.xml", {"fs.defaultFS": "file:///"})
        self._write("yarn-site.xml", self._settings())
        self._write("capacity-scheduler.xml", SCHEDULER)
        path = f"{self._home}:{jars}/*:{spark_home()}/jars/*"
        for name, kind in DAEMONS.items():
            argv: list[str | Path] = [
                java(),
                *OPTIONS,
                *_opened(),
                "-cp",
                path,
                f"org.apache.hadoop.yarn.server.{kind}",
            ]
            self._daemons[name].start(argv, cwd=self._home, env=_environment(self.configuration))
        log = self._folder.log("*-manager")
        watch.until(self._is_complete, ServiceNotReady(service="YARN", log=log, seconds=120))

    def stop(self) -> None:
        """Neither daemon runs."""
        for daemon in self._daemons.values():
            daemon.stop()

    def containers(self) -> list[psutil.Process]:
        """The processes of all containers; they inherit nothing from who started the daemons."""
        manager = self._daemons["node-manager"].process
        return family(manager)[1:] if manager else []

    def applications(self) -> str:
        """What the resource manager shows of its applications."""
        page = f"http://{self._at('webapp')}/ws/v1/cluster/apps"
        return httpx.get(page, timeout=5, trust_env=False).raise_for_status().text

    def _settings(self) -> dict[str, str]:
        ports = {f"yarn.resourcemanager.{name}": self._at(name) for name in PORTS}
        return ports | {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.webapp.address": self._at("webapp"),
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.address": self._at("node"),
            "yarn.nodemanager.localizer.address": self._at("localizer"),
            "yarn.nodemanager.webapp.address": self._at("node-webapp"),
            "yarn.nodemanager.local-dirs": str(self._home / "local"),
            "yarn.nodemanager.log-dirs": str(self._home / "logs"),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
            "yarn.scheduler.minimum-allocation-mb": "256",
        }

    def _at(self, name: str) -> str:
        return f"127.0.0.1:{self._folder.port(f'yarn-{name}')}"

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        rows = [
            f"<property><name>{key}</name><value>{escape(value)}</value></property>"
            for key, value in settings.items()
        ]
        (self._home / name).write_text("\n".join(["<configuration>", *rows, "</configuration>"]))

    def _is_complete(self) -> bool:
        for daemon in self._daemons.values():
            daemon.must_run()
        try:
            page = f"http://{self._at('webapp')}/ws/v1/cluster/metrics"
            found = httpx.get(page, timeout=5, trust_env=False).raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return False
        return bool(found["clusterMetrics"]["activeNodes"] == 1)


def _opened() -> list[str]:
    """What Hadoop reaches into."""
    return [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util")]


def _environment(configuration: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW_", "SPARK_", "PY"))}
    return kept | {"HADOOP_CONF_DIR": configuration, "JAVA_HOME": str(java().resolve().parents[1])}
