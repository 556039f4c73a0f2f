"""B19: flights through a standalone cluster of Spark's own daemons."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from scripts.demo.flight_data import PARTITIONS
from tests.support.processes import ask_for_threads, family, resume, status, stopped
from tests.support.spark_cluster import (
    Flights,
    command_lines,
    driver_page,
    executor_of,
    pack_environment,
)
from tests.support.waiting import until
from tests.support.world import dump

from tidemark_local import _spark as standalone
from tidemark_local._folder import Folder
from tidemark_local._spark import Spark
from tidemark_local.daemon import Daemon, end, marked

pytestmark = pytest.mark.spark

HANGS = 600
"""Seconds after which a cluster will not get there any more; less than a test may take."""
SHORT_LIVED = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@contextmanager
def running(folder: Folder, workers: int) -> Iterator[Spark]:
    """A master and so many workers of one core each.

    The master misses a killed worker when its connection ends. One that is only starved, on a busy
    machine, must not count as dead.
    """
    folder.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standalone, "WORKERS", workers)
        patch.setitem(standalone.SETTINGS, "spark.worker.timeout", "3600")
        spark = Spark(folder)
        spark.start()
    try:
        yield spark
    finally:
        spark.stop()
        end(marked(folder), grace=2)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def flights(
    kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> Flights:
    return Flights(kafka, warehouse, topic(partitions=PARTITIONS), tmp_path)


@pytest.mark.long
def test_flights_pass_through_a_cluster_and_no_secret_is_an_argument(
    flights: Flights, folder: Folder
) -> None:
    """B19: the project's code reaches executors that do not have it."""
    expected = flights.prepare(400, 400)
    with running(folder, 1) as cluster:
        with flights.run(cluster.connection, SHORT_LIVED, "read.middle=stop") as driver:
            await_stopped(cluster.workers, driver, flights)
            arguments = command_lines()
            go_on(folder, driver, flights)
        assert driver.returncode == 0, told(flights)
        assert flights.rows() == expected
        written = _written(flights, folder)
    for secret in (cluster.secret, flights.warehouse["password"]):
        assert secret not in arguments
        assert secret not in written


@pytest.mark.long
def test_no_record_is_lost_or_doubled_though_executor_and_worker_are_killed_and_no_secret_shows(
    flights: Flights, folder: Folder
) -> None:
    """B19: the packages too reach executors, in a packed environment."""
    expected = flights.prepare(8_000, 4_000)
    packed = flights.project / "environment.tar"
    pack_environment(packed)
    environment = flights.project / "environment"  # once on each node, as a cluster would have it
    environment.mkdir()
    subprocess.run(["tar", "-C", environment, "-xf", packed], check=True)
    python = str(environment / "bin" / "python")
    conf = SHORT_LIVED | {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    with running(folder, 2) as cluster:
        spark = cluster.connection | {"extra": {"python": python}}
        with flights.run(spark, conf, "read.middle=stop") as driver:
            first, _ = await_stopped(cluster.workers, driver, flights)
            shown = command_lines() + _pages(cluster, driver_page(driver))
            assert "/environment/lib/" in _mapped(first)
            executor_of(first).kill()
            cluster.workers[1].stop(signal.SIGKILL)
            go_on(folder, driver, flights)
        assert driver.returncode == 0, told(flights)
        assert flights.rows() == expected
        written = _written(flights, folder)
    for secret in (cluster.secret, flights.warehouse["password"]):
        assert secret not in shown
        assert secret not in written
        assert secret not in str(dump(flights.warehouse))
    assert "spark.authenticate.secret" in shown
    assert "(redacted)" in shown


def await_stopped(
    workers: list[Daemon], driver: "subprocess.Popen[bytes]", flights: Flights
) -> list[psutil.Process]:
    """A Python process of each worker's executor, stopped at its failpoint."""
    found: list[list[psutil.Process]] = []

    def each_has_one() -> bool:
        assert driver.poll() is None, told(flights)
        found[:] = [stopped(family(one.process.pid)) for one in workers if one.process]
        return all(found)

    until(each_has_one, HANGS, lambda: threads(driver) + told(flights), pause=0.5)
    return [one for one, *_ in found]


def go_on(folder: Folder, driver: "subprocess.Popen[bytes]", flights: Flights) -> None:
    """Whoever stops goes on, the orphans too, until the driver has ended."""

    def has_ended() -> bool:
        for process in stopped(marked(folder)):
            resume(process)
        return driver.poll() is not None

    until(has_ended, HANGS, lambda: threads(driver) + told(flights), pause=0.5)


def threads(driver: "subprocess.Popen[bytes]") -> str:
    """The states of a driver that hangs, and of its JVM; both write what their threads do."""
    found = family(driver.pid)
    states = [f"{one.pid} {status(one)}" for one in found]
    for process in reversed(found):  # the JVM first: it ends with its driver
        resume(process)  # else it hears nothing
        ask_for_threads(process)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(60)
    return f"{states}\n"


def told(flights: Flights) -> str:
    """What the driver and its JVM said."""
    words = flights.words.read_text()[-3000:] if flights.words.exists() else ""
    return flights.log.read_text() + words


def _written(flights: Flights, folder: Folder) -> str:
    return "".join(path.read_text(errors="replace") for path in _logs(flights, folder))


def _mapped(process: psutil.Process) -> str:
    return Path(f"/proc/{process.pid}/maps").read_text()


def _pages(cluster: Spark, driver: str) -> str:
    """What Spark shows of a driver and of its cluster."""
    with httpx.Client(trust_env=False, timeout=120, follow_redirects=True) as http:
        [app] = http.get(f"{driver}/api/v1/applications").json()
        pages = [
            f"{driver}/environment/",
            f"{driver}/executors/",
            f"{driver}/api/v1/applications/{app['id']}/environment",
            f"{cluster.page}/json/",
            f"{cluster.page}/app/?appId={app['id']}",
        ]
        return "".join(http.get(page).raise_for_status().text for page in pages)


def _logs(flights: Flights, folder: Folder) -> list[Path]:
    of_executors = [p for p in (folder.root / "spark").rglob("std*") if p.is_file()]
    return [flights.log, flights.words, *(folder.root / "logs").glob("*.log"), *of_executors]
