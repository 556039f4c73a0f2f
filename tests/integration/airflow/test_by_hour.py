"""docs/complete.md: a DAG that counts each hour once it is complete, in real Airflow.

The clock that opens look at is a table here, so that hours pass without a wait.
"""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
import yaml
from confluent_kafka import Producer
from tests.support.rest import AirflowUnderTest
from tests.support.waiting import until

from tidemark.ledger.migrate import migrate
from tidemark.postgres.transaction import connect
from tidemark_local._airflow import Airflow

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(3000),
    pytest.mark.xdist_group("airflow"),
    pytest.mark.skipif(
        version("apache-airflow-core").startswith(("3.1.", "3.2.")),
        reason="before Airflow 3.3 a task sends no partition keys",
    ),
]

PROJECT = Path(__file__).parents[3]
OWN_CLOCK = """
CREATE TABLE public.clock (at timestamptz);
INSERT INTO public.clock VALUES (now());
CREATE FUNCTION public.own_clock() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.asked_at := (SELECT at FROM public.clock); RETURN NEW; END $$;
CREATE TRIGGER own_clock BEFORE INSERT ON tidemark.runs
    FOR EACH ROW EXECUTE FUNCTION public.own_clock();
CREATE TABLE public.flights_by_hour (hour timestamptz PRIMARY KEY, flights bigint)
"""
DAGS = """
from tidemark.airflow import pipeline_dag, reset_dag
FILE = __file__.replace("hours.py", "flights_hours.yaml")
hours, reset = pipeline_dag(FILE), reset_dag(FILE)
"""
CONSUMER = "flights_by_hour"


def documented(consumer: str, ledger: str) -> str:
    """The DAG of the docs by another name, on a pipeline and a ledger of its own."""
    text = (PROJECT / "docs/complete.md").read_text()
    [found] = [
        one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if CONSUMER in one
    ]
    names = {
        "flights.yaml": "flights_hours.yaml",
        f'"{CONSUMER}"': f'"{consumer}"',
        "tidemark_warehouse": ledger,
    }
    for told, own in names.items():
        assert told in found
        found = found.replace(told, own)
    return str(found)


class Hours:
    """Flights of one day, the runs that read them, and what was counted.

    Its names are of this session alone: Airflow keeps runs and events of one that broke off.
    """

    def __init__(self, api: AirflowUnderTest, warehouse: dict[str, Any], kafka: str) -> None:
        mark = uuid4().hex[:6]
        self.region, self.consumer = f"hours_{mark}", f"{CONSUMER}_{mark}"
        self.ledger = f"hours_ledger_{mark}"
        self.api, self.warehouse = api, warehouse
        self.producer = Producer({"bootstrap.servers": kafka})
        self.topic = ""
        self.runs = 0

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(**self.warehouse)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

    def fly(self, hour: int, count: int) -> None:
        """So many flights leave in an hour."""
        for _ in range(count):
            self.producer.produce(self.topic, json.dumps({"time_hour": when(hour)}))
        assert self.producer.flush(60) == 0

    def run(self, at: str) -> str:
        """The state of a run whose open sees that clock."""
        self.sql(f"UPDATE public.clock SET at = '2026-10-01T{at}Z'")
        self.runs += 1
        return self.api.run(self.region, f"at-{at}-{self.runs}")

    def told(self) -> list[tuple[list[int], list[int]]]:
        """The hours of each close that told of any, and which of them again."""
        found = self.api.get("assets/events", source_dag_id=self.region, limit=100)
        extras = [one["extra"] for one in found["asset_events"]]
        kept = {one["epoch"]: one for one in extras if one["kind"] == "complete"}
        return [
            (list(map(hour_of, one["periods"])), list(map(hour_of, one["again"])))
            for _, one in sorted(kept.items())
        ]

    def counted(self, runs: int) -> dict[int, int]:
        """What the docs' DAG has written once so many of its runs are over."""
        until(lambda: self._over() == runs, 300, self._over, pause=1)
        rows = self.sql("SELECT extract(hour FROM hour AT TIME ZONE 'UTC'), flights"
                        " FROM public.flights_by_hour")  # fmt: skip
        return {int(hour): flights for hour, flights in rows}

    def _over(self) -> int:
        runs = self.api.get(f"dags/{self.consumer}/dagRuns", limit=100)["dag_runs"]
        assert "failed" not in {one["state"] for one in runs}
        return sum(one["state"] == "success" for one in runs)


def when(hour: int) -> str:
    return f"2026-10-01T{hour:02}:00:00Z"


def hour_of(key: str) -> int:
    return int(key.removeprefix("2026-10-01T").removesuffix(":00:00"))


@pytest.fixture
def hours(
    airflow: Airflow, dags: Path, warehouse: dict[str, Any], kafka: str, topic: Any
) -> Iterator[Hours]:
    """A region that never ran, in a ledger of its own."""
    engine = connect(warehouse)
    migrate(engine)
    engine.dispose()
    found = Hours(AirflowUnderTest(airflow), warehouse, kafka)
    found.topic = topic(2)
    found.sql(OWN_CLOCK)
    postgres = {
        "host": warehouse["host"], "port": warehouse["port"], "login": warehouse["user"],
        "password": warehouse["password"], "schema": warehouse["dbname"],
    }  # fmt: skip
    found.api.post(
        "connections", {"connection_id": found.ledger, "conn_type": "postgres"} | postgres
    )
    pipeline = {
        "region": found.region,
        "kafka": {"connection": "tidemark_kafka", "topics": [found.topic], "start": "beginning"},
        "decode": {"format": "json", "schema": {"time_hour": "timestamp"}},
        "target": {"connection": found.ledger, "table": "public.flights"},
        "complete": {"every": "hour"},
    }
    (dags / "flights_hours.yaml").write_text(yaml.safe_dump(pipeline))
    (dags / "hours.py").write_text(DAGS)
    (dags / "by_hour.py").write_text(documented(found.consumer, found.ledger))
    for dag_id in (found.region, f"{found.region}_reset", found.consumer):
        found.api.until_parsed(dag_id, dags)
        found.api.wait_for_dag(dag_id)
    yield found
    for name in ("hours.py", "by_hour.py"):
        (dags / name).unlink()
    found.api.http.delete(f"/api/v2/connections/{found.ledger}").raise_for_status()


@pytest.mark.long
def test_each_hour_is_counted_when_it_is_complete_and_is_right(hours: Hours) -> None:
    """B27: with flights that come late, a run that fails, and a rewind."""
    hours.fly(10, 7)
    hours.fly(11, 2)
    assert hours.run("11:20:00") == "success"
    assert hours.counted(runs=1) == {10: 7}
    hours.fly(10, 1)
    hours.fly(11, 3)
    assert hours.run("12:10:00") == "success"
    assert hours.run("12:20:00") == "success"
    assert hours.counted(runs=2) == {10: 7, 11: 5}  # the late one is of an hour that was told
    hours.fly(12, 4)
    hours.sql("ALTER TABLE public.flights ADD CONSTRAINT none CHECK (false) NOT VALID")
    assert hours.run("13:20:00") == "failed"
    assert hours.told() == [([10], []), ([11], [])]
    hours.sql("ALTER TABLE public.flights DROP CONSTRAINT none")
    assert hours.run("13:30:00") == "success"
    assert hours.counted(runs=3) == {10: 7, 11: 5, 12: 4}
    reset = f"{hours.region}_reset"
    assert hours.api.run(reset, "back", to="1", apply=True, why="a test") == "success"
    events = hours.api.get("assets/events", source_dag_id=reset)["asset_events"]
    assert {*map(hour_of, events[0]["extra"]["periods_taken_back"])} == {11, 12}
    hours.sql("TRUNCATE public.flights_by_hour")
    assert hours.run("14:20:00") == "success"
    assert hours.counted(runs=6) == {11: 5, 12: 4, 13: 0}
    assert hours.told()[2:] == [([12], []), ([11, 12, 13], [11, 12])]
