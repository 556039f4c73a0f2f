"""Airflow's four processes on this machine: LocalExecutor, metadata in the stack's Postgres."""

import base64
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import psycopg2

from tidemark_local._folder import Folder, write_private
from tidemark_local.daemon import Daemon, answer_of, end, family, java, serve
from tidemark_local.errors import ServiceNotReady
from tidemark_local.postgres import Postgres
from tidemark_local.watch import Watch

COMMANDS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],  # logs are read from this machine's disk
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
USER = "admin"

SETTINGS = {
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__PARALLELISM": "4",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
    "API__HOST": "127.0.0.1",
    # A changed DAG file is seen in seconds; one that has not changed is parsed twice a minute.
    "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    # A killed task or scheduler is noticed in a minute, not in five.
    "WORKERS__SOCKET_CLEANUP_TIMEOUT": "15",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
}


class Airflow:
    """api-server, scheduler, dag-processor and triggerer of one project."""

    ports = ("airflow",)

    def __init__(
        self,
        folder: Folder,
        project: Path,
        postgres: Postgres,
        connections: Callable[[], Mapping[str, str]],
    ) -> None:
        self._folder = folder
        self._project = project.resolve()
        self._postgres = postgres
        self._connections = connections
        self._home = folder.root / "airflow"
        self._daemons = {name: Daemon(folder, f"airflow-{name}") for name in COMMANDS}

    @property
    def url(self) -> str:
        """Where the UI and the REST API are."""
        return f"http://127.0.0.1:{self._folder.port('airflow')}"

    @property
    def login(self) -> tuple[str, str]:
        """User and password, the same for as long as the state folder lives."""
        return USER, self._folder.secret("airflow.admin")

    @property
    def pids(self) -> list[int | None]:
        """The four process ids, None for one that does not run."""
        return [daemon.pid for daemon in self._daemons.values()]

    def start(self, watch: Watch | None = None) -> bool:
        """All four run and say that they are healthy; False if they already did.

        Raises:
            NotStarted: Java is missing, or a process ended; says where its log is.
        """
        if all(self.pids):
            return False
        watch = watch or Watch()
        java()  # tasks need it: better said now than by a task
        self.stop()
        self._folder.private(self._home.name)
        write_private(self._passwords, json.dumps({USER: self.login[1]}))
        serve(self._folder, self.ports, lambda: self._launch(watch), self.stop, watch)
        return True

    def _launch(self, watch: Watch) -> None:
        env = {**os.environ, **self.environment()}
        if not self._is_migrated():
            self._migrate(env, watch)
        watch.tell("airflow", "starting its four processes")
        for name, words in COMMANDS.items():
            argv = [sys.executable, "-m", "airflow", *words]
            self._daemons[name].start(argv, env=env, cwd=self._home)
        log = self._folder.log("airflow-*")
        ill = ServiceNotReady(service="Airflow", symptom="is not healthy", log=log, seconds=300)
        watch.until(self._is_healthy, ill)

    def stop(self) -> None:
        """None of the four runs, nor a worker, a task or a driver that they started."""
        running = [p for d in self._daemons.values() if (p := d.process) is not None]
        end([member for process in running for member in family(process)], grace=10)
        for daemon in self._daemons.values():
            daemon.stop()
            daemon.clear()

    def environment(self) -> dict[str, str]:
        """All variables of the four processes: also what an `airflow` command here needs."""
        database = self._postgres.dsn("airflow").replace("postgresql:", "postgresql+psycopg2:")
        chosen = {
            **SETTINGS,
            "CORE__DAGS_FOLDER": str(self._project / "dags"),
            "CORE__PLUGINS_FOLDER": str(self._project / "plugins"),
            "CORE__FERNET_KEY": self._folder.secret("airflow.fernet", _fernet_key),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "DATABASE__SQL_ALCHEMY_CONN": database,
            "API__PORT": str(self._folder.port("airflow")),
            "API__BASE_URL": self.url,
            "API__SECRET_KEY": self._folder.secret("airflow.session"),
            "API_AUTH__JWT_SECRET": self._folder.secret("airflow.jwt", _jwt_secret),
        }
        return {
            "AIRFLOW_HOME": str(self._home),
            **{f"AIRFLOW__{name}": value for name, value in chosen.items()},
            **self._connections(),
            # Runs of a development stack are short: a driver that starts soon is worth more.
            "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
            "TIDEMARK_SPARK_LOGS": str(self._folder.root / "logs"),
            **_python_environment(self._project),
        }

    @property
    def _passwords(self) -> Path:
        return self._home / "passwords.json"

    def _migrate(self, env: Mapping[str, str], watch: Watch) -> None:
        watch.tell("airflow", "migrating its database")
        argv = [sys.executable, "-m", "airflow", "db", "migrate"]
        log = self._folder.log("airflow-migrate")
        watch.run(argv, what="migrating Airflow's database", log=log, env=env, cwd=self._home)
        (self._home / "migrated").write_text(_stamp())

    def _is_migrated(self) -> bool:
        stamp = self._home / "migrated"
        if not stamp.exists() or stamp.read_text() != _stamp():
            return False
        connection = psycopg2.connect(**self._postgres.parameters("airflow"))
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT to_regclass('alembic_version') IS NOT NULL")
                row = cursor.fetchone()
                return bool(row and row[0])
        finally:
            connection.close()

    def _is_healthy(self) -> bool:
        for daemon in self._daemons.values():
            daemon.must_run()
        parts = answer_of(f"{self.url}/api/v2/monitor/health")
        if parts is None or any(one["status"] != "healthy" for one in parts.values()):
            return False
        return self._daemons["api-server"].listens(self._folder.port("airflow"))


def _python_environment(project: Path) -> dict[str, str]:
    """Tasks and Spark's workers use this Python, its scripts, and the project's modules."""
    scripts, own = Path(sys.executable).parent, os.environ.get("PYTHONPATH")
    return {
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([str(project), *([own] if own else [])]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _stamp() -> str:
    return version("apache-airflow")


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _jwt_secret() -> str:
    return secrets.token_urlsafe(64)
