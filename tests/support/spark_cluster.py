"""Flights through a Spark cluster by `tidemark run`: a driver in a process of its own, watched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from scripts.demo.flight_data import PARTITIONS, Record, records
from tests.support.processes import family, kill
from tests.support.produce import produce
from tests.support.region import kafka_connection, postgres_connection, rows_of

from tidemark import failpoints

PROJECT = Path(__file__).resolve().parents[2]
ROWS = (
    "SELECT kafka_partition, kafka_offset, tailnum, distance_km FROM public.flights ORDER BY 1, 2"
)
TIDEMARK = (sys.executable, "-m", "tidemark")


def pack_environment(archive: Path) -> None:
    """The archive is made as docs/clusters.md says, by uv in the place of pip.

    A folder of tests is beside the package: without one failpoints are inert.
    """
    made = archive.parent / "made"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    uv, python = Path(sys.executable).parent / "uv", made / "bin" / "python"
    versions = ("--constraint", PROJECT / "requirements.txt")
    install = [uv, "pip", "install", "--quiet", "--python", python, *versions]
    subprocess.run([*map(str, install), f"{PROJECT}[spark]"], check=True)
    tests = made / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "tests"
    tests.mkdir()
    (tests / "conftest.py").touch()
    tar = ("tar", "-C", str(made), "--exclude=*/pyspark/jars", "-caf", str(archive), ".")
    subprocess.run(tar, check=True)
    shutil.rmtree(made)


@dataclass(frozen=True, slots=True)
class Flights:
    """A region of real flights, in a project whose code lies on nobody's path."""

    kafka: str
    warehouse: dict[str, Any]
    topic: str
    project: Path

    def prepare(self, count: int, batch: int) -> list[tuple[int, int, str, float]]:
        """The project and so many flights are there; the rows that they must become."""
        for folder in ("jobs", "dags"):
            (self.project / folder).mkdir()
        shutil.copy(PROJECT / "jobs" / "flights_arrow.py", self.project / "jobs")
        flights = list(islice(records(), count))
        for number in range(PARTITIONS):
            produce(self.kafka, self.topic, [v for _, v in flights[number::PARTITIONS]], number)
        file = yaml.safe_load((PROJECT / "dags" / "flights.yaml").read_text())
        file["kafka"]["topics"], file["region"] = [self.topic], self.topic.replace("-", "_")
        file["batch"]["max_records"] = batch
        file["transform"] = "jobs.flights_arrow:transform"
        self.pipeline.write_text(yaml.safe_dump(file))
        return [_row(p, o, one) for p in range(PARTITIONS) for o, one in _part(flights, p)]

    @property
    def pipeline(self) -> Path:
        """The pipeline file."""
        return self.project / "dags" / "flights.yaml"

    def rows(self) -> list[tuple[Any, ...]]:
        """What is visible in the target."""
        import psycopg2

        with closing(psycopg2.connect(**self.warehouse)) as connection:
            return rows_of(connection, ROWS)

    @contextmanager
    def run(
        self, spark: dict[str, Any], conf: dict[str, str], failpoint: str = ""
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """`tidemark run` where the Spark connection says; `conf` is its spark-defaults.conf."""
        folder = self.project / "conf"
        folder.mkdir(exist_ok=True)
        own = {f"spark.executorEnv.{failpoints.VARIABLE}": failpoint} if failpoint else {}
        text = "".join(f"{name} {value}\n" for name, value in (conf | own).items())
        (folder / "spark-defaults.conf").write_text(text)
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                [*TIDEMARK, "run", self.pipeline],
                env=os.environ | self._environment(spark) | {"SPARK_CONF_DIR": str(folder)},
                cwd=self.project,
                stdout=output,
                stderr=output,
            )
        try:
            yield process
        finally:
            for child in family(process.pid)[1:]:
                kill(child)
            process.kill()
            process.wait()

    @property
    def log(self) -> Path:
        """What the driver said."""
        return self.project / "driver.log"

    @property
    def words(self) -> Path:
        """What its JVM said."""
        return self.project / "spark.log"

    def _environment(self, spark: dict[str, Any]) -> dict[str, str]:
        ours = [kafka_connection(self.kafka), postgres_connection(self.warehouse)]
        return {
            **dict(one.to_env() for one in ours),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
            "PYTHONPATH": str(PROJECT / "plugins"),
            "TIDEMARK_SPARK_LOG": str(self.words),
            "PYTHONFAULTHANDLER": "1",
        }


def driver_page(driver: "subprocess.Popen[bytes]") -> str:
    """Where a driver shows what it knows, by `spark.ui.port` 0: on one of the ports it has."""
    for port in sorted(_ports(driver.pid)):
        with suppress(httpx.HTTPError):  # the other ports do not speak it
            page = f"http://127.0.0.1:{port}"
            applications = httpx.get(f"{page}/api/v1/applications", timeout=60, trust_env=False)
            if applications.is_success:
                return page
    raise AssertionError(f"driver {driver.pid} has no page")


def _ports(pid: int) -> set[int]:
    """Those at which a process or its children listen."""
    found = []
    for process in family(pid):
        with suppress(psutil.NoSuchProcess):
            found += process.net_connections()
    return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


def executor_of(worker: psutil.Process) -> psutil.Process:
    """The JVM that a Python worker belongs to."""
    return next(parent for parent in worker.parents() if "java" in parent.name())


def command_lines() -> str:
    """The arguments of every process of this machine."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_bytes().decode(errors="replace"))
    return "\n".join(found)


def _part(flights: list[Record], partition: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for offset, (_, value) in enumerate(flights[partition::PARTITIONS]):
        yield offset, json.loads(value)


def _row(partition: int, offset: int, flight: dict[str, Any]) -> tuple[int, int, str, float]:
    return partition, offset, flight["tailnum"], round(flight["distance"] * 1.609344, 1)
