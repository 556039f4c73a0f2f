"""A standalone Spark cluster on this machine: a master and two workers of one core each."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tidemark.errors import MissingExtra
from tidemark.spark.cluster import SECRET, SECURE
from tidemark_local._folder import Folder, write_private
from tidemark_local.daemon import Daemon, answer_of, java, serve
from tidemark_local.errors import ServiceNotReady
from tidemark_local.watch import Watch

WORKERS = 2
MEMORY = "1g"
"""What a worker has for executors: one of Spark's default size."""
SETTINGS = {
    "spark.ui.killEnabled": "false",
    # What applications leave in a worker's folder, packed environments among it.
    "spark.worker.cleanup.enabled": "true",
    "spark.worker.cleanup.appDataTtl": "3600",
    # What production does in minutes is seen in seconds here.
    "spark.worker.timeout": "10",
    # A master whose port is taken ends: by default it takes the next one, unknown to anybody.
    "spark.port.maxRetries": "0",
}


class Spark:
    """Spark's own daemons; they ask for the secret of this stack and encrypt what they say."""

    ports = ("spark", "spark-ui")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._home = folder.root / "spark"
        self._master = Daemon(folder, "spark-master")
        self.workers = [Daemon(folder, f"spark-worker-{n}") for n in range(1, WORKERS + 1)]

    @property
    def master(self) -> str:
        """What a client's Spark connection must say."""
        return f"spark://127.0.0.1:{self._folder.port('spark')}"

    @property
    def page(self) -> str:
        """Where the master shows what it knows."""
        return f"http://127.0.0.1:{self._folder.port('spark-ui')}"

    @property
    def secret(self) -> str:
        """What master, workers and applications must share, for as long as the folder lives."""
        return self._folder.secret("spark")

    @property
    def connection(self) -> dict[str, str]:
        """The Spark connection to it, in Airflow's shape."""
        return {"conn_type": "spark", "host": self.master, "password": self.secret}

    @property
    def pids(self) -> list[int | None]:
        """Of the master and its workers, None for one that does not run."""
        return [daemon.pid for daemon in (self._master, *self.workers)]

    def start(self, watch: Watch | None = None) -> bool:
        """The master knows its workers; False if all ran already.

        Raises:
            NotStarted: Java is missing, or a process ended; says where its log is.
            MissingExtra: PySpark is not installed.
        """
        if all(self.pids):
            return False
        watch = watch or Watch()
        java()
        self._folder.private(self._home.name)
        if self._master.process is None:
            self.stop()  # a worker that outlived its master might look for it on another port
            serve(self._folder, self.ports, lambda: self._launch(watch), self.stop, watch)
        else:
            self._launch(watch)
        return True

    def _launch(self, watch: Watch) -> None:
        watch.tell("spark", "starting a master and two workers")
        if self._master.process is None:
            self._start_master()
        for worker in self.workers:
            if worker.process is None:
                self._start_worker(worker)
        strange = ServiceNotReady(
            service="Spark's workers",
            symptom="do not register",
            log=self._folder.log("spark-*"),
            seconds=120,
        )
        watch.until(self._is_complete, strange)

    def stop(self) -> None:
        """Neither the daemons nor an executor of theirs runs."""
        for daemon in (*self.workers, self._master):
            daemon.stop()
            daemon.clear()

    def _start_master(self) -> None:
        write_private(self._properties, _properties(SECURE | SETTINGS | {SECRET: self.secret}))
        self._run(self._master, "master.Master", "--port", str(self._folder.port("spark")),
                  "--webui-port", str(self._folder.port("spark-ui")))  # fmt: skip

    def _start_worker(self, worker: Daemon) -> None:
        self._run(worker, "worker.Worker", "--cores", "1", "--memory", MEMORY,
                  "--webui-port", "0", "--work-dir", str(self._home / worker.name),
                  self.master)  # fmt: skip

    def _run(self, daemon: Daemon, name: str, *words: str) -> None:
        daemon.clear()
        launcher = str(spark_home() / "bin" / "spark-class")
        own = ["--host", "127.0.0.1", "--properties-file", str(self._properties)]
        argv = [launcher, f"org.apache.spark.deploy.{name}", *own, *words]
        daemon.start(argv, env=_environment(), cwd=self._home)

    @property
    def _properties(self) -> Path:
        return self._home / "spark.properties"

    def _is_complete(self) -> bool:
        for daemon in (self._master, *self.workers):
            daemon.must_run()
        found = answer_of(f"{self.page}/json/")
        if found is None or int(found["aliveworkers"]) != WORKERS:
            return False
        return self._master.listens(self._folder.port("spark-ui"))


def spark_home() -> Path:
    """The folder of the installed PySpark, whose daemons are Spark's own.

    Raises:
        MissingExtra: it is not installed.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingExtra(feature="a local Spark", extra="spark", cause="pyspark")
    return Path(found.origin).parent


def _environment() -> Mapping[str, str]:
    """Without what belongs to a driver; executors inherit it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW_", "SPARK_", "PY"))}
    return kept | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in settings.items())
