"""What an OpenLineage backend is told of a real run of Airflow, spark-submit, Kafka, Postgres."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.support.http_server import receiver, served
from tests.support.world import World

Event = dict[str, Any]

DAG = """
from pathlib import Path
from tidemark.airflow import pipeline_dag

dag = pipeline_dag(Path(__file__).with_name("lined.yaml"), dag_id="lined")
"""


@contextmanager
def receiving() -> Iterator[tuple[str, list[Event]]]:
    """An HTTP receiver of events, at this address."""
    events: list[Event] = []

    def take(body: bytes, headers: Message) -> int:
        events.append(json.loads(body))
        return 200

    with served(receiver(take)) as url:
        yield url, events


@pytest.fixture
def world(kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str) -> World:
    return World(kafka, warehouse, topic(partitions=2), group)


@pytest.mark.spark
def test_a_real_run_tells_its_lineage(
    world: World, environment: dict[str, str], tmp_path: Path
) -> None:
    """B22: topics, tables, columns and counts, named as the specification says; and no secret."""
    world.produce(5)
    (tmp_path / "lined.yaml").write_text(yaml.safe_dump(world.file))
    (tmp_path / "lined.py").write_text(DAG)
    home = tmp_path / "home"
    connections = dict(one.to_env() for one in world.connections.values())
    spark = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"})}
    own = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
    }
    script = [sys.executable, str(Path(__file__).with_name("lineage.py")), str(tmp_path)]
    with receiving() as (url, events):
        env = {**environment, **own, **connections, **spark, "OPENLINEAGE_URL": url}
        ended = subprocess.run(script, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads((tmp_path / "states.json").read_text())
    check_assets(world, found["events"])
    states = found["tasks"]
    assert (states["drain"], states["close"]) == ("success", "success"), ended.stdout[-3000:]
    [close] = [one for one in events if is_told(one, "COMPLETE", "lined.close")]
    check_datasets(world, close)
    places = names(close["inputs"]), names(close["outputs"])
    for job in ("lined.drain", "lined.close"):
        [started] = [one for one in events if is_told(one, "START", job)]
        assert (names(started["inputs"]), names(started["outputs"])) == places
    [drain] = [one for one in events if is_told(one, "COMPLETE", "lined.drain")]
    assert names(drain["inputs"]) == names(close["inputs"])
    assert names(drain["outputs"]) == names(close["outputs"])
    assert "outputStatistics" not in drain["outputs"][0].get("outputFacets", {})
    assert world.warehouse["password"] not in json.dumps(events)


def is_told(event: Event, kind: str, job: str) -> bool:
    return (event["eventType"], event["job"]["name"]) == (kind, job)


def names(datasets: list[Event]) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in datasets]


def check_datasets(world: World, close: Event) -> None:
    """The names of OpenLineage's specification; the columns are those of file and table."""
    [topic], [table] = close["inputs"], close["outputs"]
    assert names([topic]) == [(f"kafka://{world.kafka}", world.topic)]
    p = world.warehouse
    place = (f"postgres://{p['host']}:{p['port']}", f"{p['dbname']}.public.records")
    assert names([table]) == [place]
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == 5
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 5
    fields = topic["facets"]["schema"]["fields"]
    assert [(one["name"], one["type"]) for one in fields] == [("value", "string")]
    columns = {one["name"]: one["type"] for one in table["facets"]["schema"]["fields"]}
    assert (columns["value"], columns["kafka_offset"]) == ("text", "bigint")
    made = table["facets"]["columnLineage"]["fields"]
    assert {name: [one["field"] for one in of["inputFields"]] for name, of in made.items()} == {
        "value": ["value"]
    }


def check_assets(world: World, events: dict[str, Any]) -> None:
    """B24: our own, and the table's address as Airflow's and OpenLineage's tools write it."""
    from airflow.providers.postgres.assets.postgres import (
        convert_asset_to_openlineage,
        create_asset,
    )

    p = world.warehouse
    usual = create_asset(
        host=p["host"], port=p["port"], database=p["dbname"], schema="public", table="records"
    )
    assert events.keys() == {"tidemark://tidemark_warehouse/public/records", usual.uri}
    assert [*events.values()] == [events[usual.uri]] * 2
    assert events[usual.uri]["rows"] == 5
    named = convert_asset_to_openlineage(usual, None)
    place = (f"postgres://{p['host']}:{p['port']}", f"{p['dbname']}.public.records")
    assert (named.namespace, named.name) == place  # dbt and OpenLineage: check_datasets


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"host": "db", "schema": "w"}, "postgres://db:5432/w/public/t"),
        ({"host": "db,other", "port": 1, "schema": "w"}, "postgres://db:1/w/public/t"),
        ({"host": "db", "schema": "a b/c"}, "postgres://db:5432/a%20b%2Fc/public/t"),
        ({"host": "/var/run/postgresql", "schema": "w"}, None),
        ({"host": None, "schema": "w"}, None),
        ({"host": "db", "schema": None}, None),
    ],
)
def test_the_address_of_a_table_is_told_where_there_is_one(
    given: dict[str, Any], address: str | None
) -> None:
    from tidemark.settings.connections import Connection
    from tidemark.views.lineage import table_address

    assert table_address(Connection("c", "postgres", **given), "public.t") == address


@pytest.mark.long
def test_without_a_backend_nothing_is_looked_up(
    connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: neither ledger nor connections are asked, and the operator has nothing to tell."""
    from tidemark.airflow import _lineage
    from tidemark.airflow._lineage import is_wanted

    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    assert _lineage.seen("no such file", {}, counts=True) is None
    assert _lineage.operator_lineage(None) is None
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.conf", None)
    assert is_wanted() is False


@pytest.mark.long
def test_what_cannot_be_looked_up_fails_nothing(
    connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B22: the ledger of these connections does not answer; neither does a task's time-out hurt."""
    from tests.dags.conftest import PROJECT
    from tests.support.airflows import AirflowTaskTimeout

    from tidemark.airflow import _lineage

    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    context = {"ti": SimpleNamespace(dag_id="flights", run_id="x", task_id="close")}
    path, told = str(PROJECT / "dags" / "flights.yaml"), list[str]()
    monkeypatch.setattr(_lineage.log, "warning", lambda text, *_: told.append(text))
    assert _lineage.seen(path, context, counts=True) is None
    assert [text.partition(":")[0] for text in told] == ["the lineage is not told"]

    def late(*_: object) -> None:
        raise AirflowTaskTimeout

    monkeypatch.setattr(_lineage, "resolve", late)
    assert _lineage.seen(path, context, counts=True) is None


@pytest.mark.long
def test_names_of_servers() -> None:
    """B22: the first of several; with the port that is meant; without a protocol's name."""
    from tidemark.settings.connections import Connection
    from tidemark.views.lineage import kafka_namespace, postgres_namespace

    def kafka(servers: str) -> str:
        return kafka_namespace(Connection("k", "kafka", extra={"bootstrap.servers": servers}))

    assert kafka("a:1,b:2") == "kafka://a:1"
    assert kafka("SASL_SSL://a:1") == "kafka://a:1"
    assert kafka("a") == "kafka://a:9092"
    assert postgres_namespace(Connection("p", "postgres", "a")) == "postgres://a:5432"
    two = Connection("p", "postgres", "a,b", extra={"port": "6,7"})
    assert postgres_namespace(two) == "postgres://a:6"
