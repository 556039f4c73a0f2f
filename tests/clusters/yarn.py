"""B19: flights through Hadoop YARN in client mode; `make test-yarn` runs it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from scripts.demo.flight_data import PARTITIONS
from tests.support.processes import resume, stopped
from tests.support.spark_cluster import (
    Flights,
    command_lines,
    driver_page,
    executor_of,
    pack_environment,
)
from tests.support.waiting import until
from tests.support.world import dump
from tests.support.yarn import Yarn

from tidemark_local._folder import Folder
from tidemark_local._spark import spark_home
from tidemark_local.daemon import end, marked

pytestmark = pytest.mark.spark

CONF = {
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "true",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("yarn"))
    folder.create()
    return folder


@pytest.fixture(scope="module")
def yarn(folder: Folder, stack: Any) -> Iterator[Yarn]:
    yarn = Yarn(folder)
    yarn.start()
    yield yarn
    yarn.stop()
    end(marked(folder), grace=2)


def test_no_record_is_lost_or_doubled_on_yarn_though_an_executor_is_killed_and_no_secret_shows(
    yarn: Yarn,
    kafka: str,
    warehouse: dict[str, Any],
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B19: with a packed environment, and Spark's own secret of each application."""
    flights = Flights(kafka, warehouse, topic(partitions=PARTITIONS), tmp_path)
    expected = flights.prepare(20_000, 10_000)
    packed = tmp_path / "environment.tar.gz"
    pack_environment(packed)
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"environment": str(packed)}}
    own = {
        "spark.ui.port": "0",
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.yarn.stagingDir": tmp_path.as_uri(),
    }
    monkeypatch.setenv("HADOOP_CONF_DIR", yarn.configuration)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")  # AES needs the second compiler

    def told() -> str:
        return flights.log.read_text() + flights.words.read_text()[-3000:]

    with flights.run(spark, CONF | own, "read.middle=stop") as driver:
        until(lambda: driver.poll() or stopped(yarn.containers()), 400, told, pause=0.5)
        shown = command_lines() + yarn.applications() + _environment_page(driver_page(driver))
        orphan = stopped(yarn.containers())[0]
        executor_of(orphan).kill()
        until(lambda: _goes_on(yarn, orphan, driver), 400, told, pause=0.5)
    assert driver.returncode == 0, told()
    assert flights.rows() == expected
    assert "spark.yarn.jars" in shown
    for text in (shown, told(), str(dump(warehouse))):
        assert warehouse["password"] not in text


def _goes_on(yarn: Yarn, orphan: psutil.Process, driver: Any) -> bool:
    """Whether the driver has ended; meanwhile whoever stopped goes on, the orphan too."""
    for process in stopped([orphan, *yarn.containers()]):
        resume(process)
    return driver.poll() is not None


def _environment_page(driver: str) -> str:
    applications = f"{driver}/api/v1/applications"
    with httpx.Client(trust_env=False, timeout=20, follow_redirects=True) as http:
        [app] = http.get(applications).json()
        return http.get(f"{applications}/{app['id']}/environment").raise_for_status().text
