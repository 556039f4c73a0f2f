"""The example DAGs of the package: in reality, as a user would copy them."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.dags.conftest import PROJECT
from tests.dags.test_wiring import run_by_airflow
from tests.support.produce import produce
from tests.support.region import ask
from tests.support.world import World

FOLDER = PROJECT / "plugins" / "tidemark" / "airflow" / "example_dags"
CLICKS = [
    {"user_name": name, "page": "/", "clicked_at": "2026-01-31T12:00:00Z"} for name in "abcde"
]


class Copied:
    """The examples in a folder of a user's own, with a topic that holds clicks."""

    def __init__(self, world: World, folder: Path) -> None:
        self.warehouse, self._kafka, self._topic = world.warehouse, world.kafka, world.topic
        self.folder, self.region = folder, world.region
        shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
        for file in folder.glob("*.yaml"):
            text = file.read_text().replace("topics: [clicks]", f"topics: [{world.topic}]")
            file.write_text(text.replace("region: example_", f"region: {world.region}_"))
        self.own = dict(one.to_env() for one in world.connections.values())
        spark = {"conn_type": "spark", "host": "local[1]"}
        self.own["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(spark)

    def produce(self) -> None:
        """Five clicks."""
        produce(self._kafka, self._topic, [json.dumps(one).encode() for one in CLICKS], 0)

    def run(self, environment: dict[str, str], name: str, dag_id: str) -> dict[str, Any]:
        """What became of one run."""
        file = str(self.folder / f"{name}.py")
        return run_by_airflow(environment | self.own, "examples.py", file, dag_id)


@pytest.fixture
def copied(
    kafka: str,
    warehouse: dict[str, Any],
    topic: Callable[..., str],
    group: str,
    tmp_path: Path,
) -> Copied:
    found = Copied(World(kafka, warehouse, topic(partitions=2), group), tmp_path)
    found.produce()
    return found


def rows(copied: Copied, table: str) -> int:
    [(count,)] = ask(copied.warehouse, f"SELECT count(*) FROM public.{table}")
    return int(count)


def test_all_examples_are_dags_without_a_fault(copied: Copied) -> None:
    """B24."""
    from tidemark.testing import dag_faults

    assert dag_faults(copied.folder) == []
    assert {path.stem for path in FOLDER.glob("*.py")} == {
        path.stem for path in FOLDER.glob("*.yaml")
    }


@pytest.mark.long
@pytest.mark.spark
def test_the_group_gives_its_result_to_a_task(copied: Copied, environment: dict[str, str]) -> None:
    """B24."""
    found = copied.run(environment, "clicks_grouped", "example_grouped")
    assert found["run"] == "success"
    assert found["results"]["report"] == "5 rows, checkpoint 1"
    assert rows(copied, "clicks_grouped") == 5


@pytest.mark.long
@pytest.mark.spark
def test_a_reader_waits_for_a_run_by_hand_that_is_checked(
    copied: Copied, environment: dict[str, str]
) -> None:
    """B24, B27: for one that opens after the reader was asked for."""
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(copied.run, environment, "clicks_by_hand", "example_reader")
        runs = []
        while not reader.done():
            runs.append(copied.run(environment, "clicks_by_hand", "example_by_hand"))
    assert {one["run"] for one in runs} == {"success"}
    assert runs[0]["tasks"]["check"] == "success"
    assert reader.result()["tasks"] == {"whole": "success", "count": "success"}
    assert rows(copied, "clicks_by_hand") == 5


@pytest.mark.long
@pytest.mark.spark
def test_the_pipeline_that_runs_on_data_runs(copied: Copied, environment: dict[str, str]) -> None:
    """B24; its doorbell and its approval have tests of their own."""
    found = copied.run(environment, "clicks_on_data", f"{copied.region}_on_data")
    assert found["run"] == "success"
    assert rows(copied, "clicks_on_data") == 5
