"""The local stack as one thing: up, down, status, and what a client needs to know."""

import json
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tidemark_local._airflow import Airflow
from tidemark_local._broker import LocalBroker
from tidemark_local._folder import Folder, write_private
from tidemark_local._registry import LocalRegistry
from tidemark_local._spark import Spark
from tidemark_local.daemon import end, marked
from tidemark_local.postgres import Postgres
from tidemark_local.watch import Tell, Watch, silent

SERVICES = ("kafka", "registry", "postgres", "spark", "airflow")
DEFAULT = ("kafka", "postgres", "airflow")
"""Without a cluster of its own, Spark runs in the drivers' processes; few need a registry."""

KAFKA = "AIRFLOW_CONN_TIDEMARK_KAFKA"
WAREHOUSE = "AIRFLOW_CONN_TIDEMARK_WAREHOUSE"
REGISTRY = "AIRFLOW_CONN_TIDEMARK_REGISTRY"
SPARK = "AIRFLOW_CONN_SPARK_DEFAULT"


def connections(
    bootstrap: str,
    warehouse: Mapping[str, Any],
    cluster: Mapping[str, Any] | None = None,
    registry: str | None = None,
) -> dict[str, str]:
    """The connections of the worked examples, as JSON by variable name.

    Without a cluster Spark runs in the driver's process. `registry` is a schema registry's URL.
    """
    postgres = {
        "conn_type": "postgres",
        "host": warehouse["host"],
        "port": warehouse["port"],
        "login": warehouse["user"],
        "password": warehouse["password"],
        "schema": warehouse["dbname"],
        "extra": {"sslmode": "disable"},
    }
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
    spark = cluster or {"conn_type": "spark", "host": "local[2]"}
    shapes = {KAFKA: kafka, WAREHOUSE: postgres, SPARK: spark}
    if registry:
        shapes[REGISTRY] = {"conn_type": "http", "host": registry}
    return {name: json.dumps(shape) for name, shape in shapes.items()}


def script(variables: Mapping[str, str]) -> str:
    """The variables as a file for a shell's `source`."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(["# source this; it holds passwords", *lines, ""])


class Service(Protocol):
    """A part of the stack."""

    def start(self, watch: Watch) -> bool:
        """It runs; False if it already ran."""

    def stop(self) -> None:
        """It does not run."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What is known of one service."""

    service: str
    running: bool
    address: str
    pids: Sequence[int]


class LocalStack:
    """Everything that one project needs on this machine; all its state lies in one folder."""

    def __init__(self, state_dir: Path, project: Path, tell: Tell = silent) -> None:
        self.folder = Folder(state_dir)
        self.kafka = LocalBroker(self.folder)
        self.registry = LocalRegistry(self.folder)
        self.postgres = Postgres(self.folder)
        self.spark = Spark(self.folder)
        self.airflow = Airflow(self.folder, project, self.postgres, self.environment)
        self._tell = tell

    def up(self, services: Iterable[str] = DEFAULT) -> list[str]:
        """All the services answer; returns the names of those that this call started.

        Airflow brings Postgres with it. Data of an earlier `up` is kept and used.
        If it fails or is interrupted: what this call started is stopped again, the data stays.

        Raises:
            NotStarted: a service did not start; says why, in one line.
            MissingExtra: its package is not installed.
        """
        wanted = set(services) | ({"postgres"} if "airflow" in services else set())
        with self.folder.locked(self._waiting):
            if any(self.airflow.pids):  # it was told where the others are
                for server in (self.kafka, self.registry, self.postgres, self.spark):
                    self.folder.give(server.ports)
            started = self._start([name for name in SERVICES if name in wanted])
            write_private(self.folder.root / "env", script(self.environment()))
        return started

    def down(self, *, erase: bool = False) -> None:
        """No process of this stack runs, orphans of crashed ones included; the data stays.

        With `erase` the state folder goes too.
        """
        if not self.folder.exists:
            return
        with self.folder.locked(self._waiting):
            self._stop(SERVICES)
            end(marked(self.folder), grace=5)
            if erase:
                self.postgres.erase()
                shutil.rmtree(self.folder.root)

    def status(self) -> list[ServiceStatus]:
        """One line per service; empty if nothing was ever started in this folder."""
        if not self.folder.exists:
            return []
        kafka, registry, server = self.kafka.pid, self.registry.pid, self.postgres.pid
        spark, pids = self.spark.pids, self.airflow.pids
        return [
            ServiceStatus("kafka", kafka is not None, self.kafka.bootstrap, _some(kafka)),
            ServiceStatus("registry", registry is not None, self.registry.url, _some(registry)),
            ServiceStatus("postgres", server is not None, self._server(), _some(server)),
            ServiceStatus("spark", all(spark), self.spark.master, _some(*spark)),
            ServiceStatus("airflow", all(pids), self.airflow.url, _some(*pids)),
        ]

    def environment(self) -> dict[str, str]:
        """The connections for drivers and the command line, by environment variable."""
        cluster = self.spark.connection if any(self.spark.pids) else None
        warehouse = self.postgres.parameters("warehouse")
        return connections(self.kafka.bootstrap, warehouse, cluster, self.registry.url)

    def _server(self) -> str:
        return f"127.0.0.1:{self.postgres.port}"

    def _start(self, names: Sequence[str]) -> list[str]:
        watch = Watch(self._tell)
        with ThreadPoolExecutor(max_workers=len(SERVICES)) as threads:
            tasks: dict[str, Future[bool]] = {}
            for name in names:
                before = list(tasks.values()) if name == "airflow" else []
                tasks[name] = threads.submit(self._start_one, name, watch, before)
            try:
                done, _ = wait(tasks.values(), return_when=FIRST_EXCEPTION)
                for task in done:
                    task.result()
            except BaseException:
                watch.cancel()
                wait(tasks.values())
                self._tell("local", "stopping what was started")
                self._stop([name for name in names if not _ran_before(tasks[name])])
                raise
        return [name for name in names if tasks[name].result()]

    def _start_one(self, name: str, watch: Watch, before: Sequence[Future[bool]]) -> bool:
        for other in before:
            other.result()
        started = self._service(name).start(watch)
        self._tell(name, "runs" if started else "already runs")
        return started

    def _stop(self, names: Iterable[str]) -> None:
        wanted = set(names)
        if "airflow" in wanted:
            self.airflow.stop()
        servers = [self._service(name) for name in SERVICES if name in wanted - {"airflow"}]
        with ThreadPoolExecutor(max_workers=len(SERVICES)) as threads:
            for task in [threads.submit(server.stop) for server in servers]:
                task.result()

    def _service(self, name: str) -> Service:
        services: dict[str, Service] = {
            "kafka": self.kafka,
            "registry": self.registry,
            "postgres": self.postgres,
            "spark": self.spark,
            "airflow": self.airflow,
        }
        return services[name]

    def _waiting(self) -> None:
        self._tell("local", f"somebody else starts or stops {self.folder.root}: waiting")


def _ran_before(task: Future[bool]) -> bool:
    return task.done() and not task.cancelled() and not task.exception() and not task.result()


def _some(*pids: int | None) -> list[int]:
    return [pid for pid in pids if pid is not None]
