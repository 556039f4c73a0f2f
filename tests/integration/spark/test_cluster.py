"""B19: flights through a standalone cluster of Spark's own daemons, with a packed environment."""

import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from scripts.flight_data import PARTITIONS
from tests.support.members import until
from tests.support.spark_cluster import (
    Flights,
    command_lines,
    driver_page,
    executor_of,
    stopped,
)
from tests.support.world import dump

from tidemark.local.daemon import end, marked
from tidemark.local.folder import Folder
from tidemark.local.spark import Spark

pytestmark = pytest.mark.spark

COUNT, BATCH = 8_000, 4_000
SHORT_LIVED = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("cluster"))
    folder.create()
    return folder


@pytest.fixture(scope="module")
def cluster(folder: Folder, stack: Any) -> Iterator[Spark]:
    """A master and two workers of one core each."""
    spark = Spark(folder)
    spark.start()
    yield spark
    spark.stop()
    end(marked(folder), grace=2)


@pytest.fixture
def flights(
    kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], tmp_path: Path
) -> Flights:
    return Flights(kafka, warehouse, topic(partitions=PARTITIONS), tmp_path)


def test_no_record_is_lost_or_doubled_though_executor_and_worker_are_killed_and_no_secret_shows(
    flights: Flights, cluster: Spark, folder: Folder
) -> None:
    """B19: the project's code and the packages reach executors that have neither."""
    from tidemark.spark.packed import pack

    expected = flights.prepare(COUNT, BATCH)
    packed = flights.project / "environment.tar"
    pack(packed)
    with tarfile.open(packed) as archive:  # once on each node, as a cluster would have it
        archive.extractall(flights.project / "environment", filter="tar")
    python = str(flights.project / "environment" / "bin" / "python")
    spark = cluster.connection | {"extra": {"python": python}}
    conf = SHORT_LIVED | {"spark.ui.enabled": "true", "spark.ui.port": "0"}

    def told() -> str:
        return flights.log.read_text() + flights.words.read_text()[-3000:]

    with flights.run(spark, conf, "read.middle=stop") as driver:
        until(lambda: driver.poll() or len(stopped(marked(folder))) == 2, 400, told, pause=0.5)
        shown = command_lines() + _pages(cluster, driver_page(driver))
        first, _ = stopped(marked(folder))
        assert "/environment/lib/" in _mapped(first)
        executor_of(first).kill()
        cluster.workers[1].stop(signal.SIGKILL)
        until(lambda: _goes_on(folder, driver), 400, told, pause=0.5)
    assert driver.returncode == 0, told()
    assert flights.rows() == expected
    written = "".join(p.read_text(errors="replace") for p in _logs(flights, folder))
    for secret in (cluster.secret, flights.warehouse["password"]):
        assert secret not in shown
        assert secret not in written
        assert secret not in str(dump(flights.warehouse))
    assert "spark.authenticate.secret" in shown
    assert "(redacted)" in shown


def _goes_on(folder: Folder, driver: Any) -> bool:
    """Whether the driver has ended; meanwhile whoever stopped goes on, the orphans too."""
    for process in stopped(marked(folder)):
        process.send_signal(signal.SIGCONT)
    return driver.poll() is not None


def _mapped(process: psutil.Process) -> str:
    return Path(f"/proc/{process.pid}/maps").read_text()


def _pages(cluster: Spark, driver: str) -> str:
    """What Spark shows of a driver and of its cluster."""
    with httpx.Client(trust_env=False, timeout=20, follow_redirects=True) as http:
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
