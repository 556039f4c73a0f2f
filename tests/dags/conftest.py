"""Airflow must find its settings before its first import: a home that no test shares."""

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from fastapi.testclient import TestClient
    from tests.support.airflows import DagBag
    from tests.support.world import World

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="tidemark-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
}
if "airflow" not in sys.modules:
    os.environ.update(SETTINGS)

PASSWORD = "correct horse"
HERE = "http://127.0.0.1"


@pytest.fixture(scope="session", autouse=True)
def _airflow() -> None:
    """Its first import takes all handlers off the root logger: `caplog` would hear nothing."""
    import airflow  # noqa: F401


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For a process that runs Airflow: a home of its own and the project on its path."""
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        **SETTINGS,
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
    }


@pytest.fixture(scope="module")
def bag() -> "DagBag":
    """The DAG files as the dag-processor reads them, none skipped silently."""
    from tests.support.airflows import DagBag

    return DagBag(dag_folder=PROJECT / "dags", safe_mode=False)


def fill_metadata(bag: "DagBag") -> None:
    """Airflow's database is made, and has the DAGs."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.utils.db import initdb
    from tests.support.airflows import sync_bag_to_db

    initdb()
    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> str:
    """The three connections of the worked example in the environment; returns their password."""
    shapes = {
        "TIDEMARK_KAFKA": {
            "conn_type": "kafka",
            "extra": {"bootstrap.servers": "127.0.0.1:1", "sasl.password": PASSWORD},
        },
        "TIDEMARK_WAREHOUSE": {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "login": "tidemark",
            "password": PASSWORD,
            "schema": "warehouse",
        },
        "SPARK_DEFAULT": {"conn_type": "spark", "host": "local[1]"},
    }
    for name, shape in shapes.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(shape))
    return PASSWORD


@pytest.fixture
def region(
    kafka: str,
    warehouse: dict[str, Any],
    topic: Callable[..., str],
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> "World":
    """Three records in one checkpoint; its file and its connections are where Airflow looks."""
    from tests.support.commands import settle_in
    from tests.support.world import World

    world = World(kafka, warehouse, topic(partitions=2), group)
    world.produce(3)
    world.run("first")
    settle_in(world, tmp_path, monkeypatch)
    return world


@pytest.fixture(scope="module")
def client(bag: "DagBag") -> Iterator["TestClient"]:
    """Airflow's app with this project's plugin and DAGs; ledger and Kafka can't be reached."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from fastapi.testclient import TestClient

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.support.some_dags.SomeDags")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "x" * 64)
        patch.setenv("AIRFLOW_CONN_TIDEMARK_WAREHOUSE", json.dumps(_postgres()))
        kafka = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": PASSWORD}
        patch.setenv(
            "AIRFLOW_CONN_TIDEMARK_KAFKA", json.dumps({"conn_type": "kafka", "extra": kafka})
        )
        patch.setattr("tidemark.page.asking.PATIENCE", 1)
        patch.setattr("tidemark.page.asking.SHARED_SECONDS", 0)  # a test asks after each change
        fill_metadata(bag)
        yield TestClient(create_app(apps="core"), base_url=HERE)
        purge_cached_app()


@pytest.fixture
def session(client: "TestClient") -> Iterator[Any]:
    from airflow.utils.session import create_session

    with create_session() as session:
        yield session


@pytest.fixture
def run(session: Any) -> Iterator[Any]:
    """The newest run of `flights`, at work."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag = SerializedDagModel.get_dag("flights", session=session)
    version = DagVersion.get_latest_version("flights", session=session)
    now = datetime.now(UTC)
    run = DagRun(
        dag_id="flights", run_id=f"r-{uuid4().hex[:8]}", logical_date=now, run_after=now,
        run_type=DagRunType.MANUAL, state=DagRunState.RUNNING,
        triggered_by=DagRunTriggeredByType.TEST,
    )  # fmt: skip
    session.add(run)
    session.flush()
    run.dag = dag
    run.verify_integrity(session=session, dag_version_id=version.id)
    yield run
    session.delete(run)


def token(*dag_ids: str, teams: tuple[str, ...] = ()) -> dict[str, str]:
    """The header of a user of these teams who may read these DAGs."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    member = {"teams": list(teams)} if teams else {}
    user = SimpleAuthManagerUser(username=" ".join(dag_ids) or "nobody", role="viewer", **member)
    return {"Authorization": f"Bearer {get_auth_manager().generate_jwt(user)}"}


def _postgres() -> dict[str, Any]:
    return {
        "conn_type": "postgres", "host": "127.0.0.1", "port": 1, "login": "tidemark",
        "password": PASSWORD, "schema": "warehouse",
    }  # fmt: skip
