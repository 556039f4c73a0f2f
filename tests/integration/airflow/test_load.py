"""Airflow answers while all looks of ours wait: for a Kafka that is silent, for a locked ledger."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg2
import pytest
import yaml
from tests.support.rest import AirflowUnderTest
from tests.support.waiting import until

from tidemark.ledger.migrate import migrate
from tidemark.postgres.session import Cursor
from tidemark.postgres.transaction import connect
from tidemark_local._airflow import Airflow

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900), pytest.mark.xdist_group("airflow")]

FILE = """from pathlib import Path

from tidemark.airflow import pipeline_dag

guest = pipeline_dag(Path(__file__).with_name("guest.yaml"), dag_id="guest")
"""
OF_REGION = ("", "/live", "/charts", "/failure", "/now", "/dry-run")
ROUTES = ("/tidemark/", "/tidemark/lags", *(f"/tidemark/dag{one}" for one in OF_REGION))
EACH = 5
"""40 requests in all: sixteen were enough to stop Airflow once."""


@pytest.fixture
def api(airflow: Airflow) -> AirflowUnderTest:
    return AirflowUnderTest(airflow)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a Kafka that takes connections and says no word, as a stopped one does."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def guest(
    api: AirflowUnderTest, dags: Path, warehouse: dict[str, Any], silent: str
) -> Iterator[dict[str, Any]]:
    """The DAG of a region in a ledger of its own; the ledger."""
    engine = connect(warehouse)
    migrate(engine)
    engine.dispose()
    postgres = {
        "host": warehouse["host"], "port": warehouse["port"], "login": warehouse["user"],
        "password": warehouse["password"], "schema": warehouse["dbname"],
    }  # fmt: skip
    kafka = {"extra": json.dumps({"bootstrap.servers": silent})}
    for conn_id, kind, told in (("guest_ledger", "postgres", postgres), ("silent", "kafka", kafka)):
        api.post("connections", {"connection_id": conn_id, "conn_type": kind} | told)
    pipeline = {
        "region": "guest",
        "kafka": {"connection": "silent", "topics": ["nothing"]},
        "decode": {"format": "raw"},
        "target": {"connection": "guest_ledger", "table": "public.guest"},
    }
    (dags / "guest.yaml").write_text(yaml.safe_dump(pipeline))
    (dags / "guest.py").write_text(FILE)
    api.until_parsed("guest", dags)
    yield warehouse
    (dags / "guest.py").unlink()
    for conn_id in ("guest_ledger", "silent"):
        api.http.delete(f"/api/v2/connections/{conn_id}").raise_for_status()


@contextmanager
def locked(ledger: dict[str, Any]) -> Iterator[Cursor]:
    """Nobody may even read it; a cursor that sees who waits."""
    with closing(psycopg2.connect(**ledger)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE tidemark.regions, tidemark.runs, tidemark.partitions")
        yield cursor


def waiting(cursor: Cursor) -> int:
    """Sessions that wait for the lock."""
    cursor.execute(
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE NOT granted AND datname = current_database()"
    )
    [(found,)] = cursor.fetchall()
    return int(found)


def ask(airflow: Airflow, api: AirflowUnderTest, path: str) -> httpx.Response:
    """One viewer's request."""
    query = {"dag_id": "guest"} if "/dag" in path else {}
    query |= {"to": "initial"} if "dry-run" in path else {}
    method = "POST" if "dry-run" in path else "GET"
    headers = {"Authorization": api.http.headers["Authorization"]}
    with httpx.Client(base_url=airflow.url, timeout=300, trust_env=False) as client:
        return client.request(method, path, params=query, headers=headers)


@pytest.mark.long
def test_airflow_answers_while_all_looks_wait(
    airflow: Airflow, api: AirflowUnderTest, guest: dict[str, Any]
) -> None:
    """B21, G115: no session of its database and no thread of its server waits with them."""
    paths = ROUTES * EACH
    with locked(guest) as cursor, ThreadPoolExecutor(len(paths)) as viewers:
        asked: list[Future[httpx.Response]] = [
            viewers.submit(ask, airflow, api, path) for path in paths
        ]
        until(lambda: waiting(cursor))
        beside = 0
        while not all(one.done() for one in asked):
            api.http.get("/api/v2/dags", params={"limit": 50}).raise_for_status()
            beside += 1
    assert beside > 0
    answers = [one.result() for one in asked]
    assert {one.status_code for one in answers} <= {200, 503}
    assert all("Retry-After" in one.headers for one in answers if one.status_code == 503)
    until(lambda: "It has not run yet" in ask(airflow, api, "/tidemark/dag").text)
