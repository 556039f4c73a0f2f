"""A run starts when records wait; what rings is late, doubled or lost without harm."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.dags.conftest import PROJECT
from tests.support.databases import administer
from tests.support.executor import BAD
from tests.support.filled import copied
from tests.support.produce import produce
from tests.support.region import kafka_connection, postgres_connection
from tests.support.waiting import until
from tests.support.world import World

from tidemark.admin.replay import replay_dead_letters
from tidemark.errors import InvalidSettings, Refused
from tidemark.kafka.config import kafka_config
from tidemark.kafka.errors import BrokersSilent
from tidemark.kafka.facts import Broker
from tidemark.ledger.actions import Order
from tidemark.ledger.kept_dead_letters import ALL_DEAD_LETTERS
from tidemark.ledger.starts import RefusedOpen
from tidemark.model.offsets import TopicPartition
from tidemark.settings.connections import Connection
from tidemark.settings.fingerprint import file_fingerprint
from tidemark.views.status import Unread, unread
from tidemark_local.stack import LocalStack

if TYPE_CHECKING:
    from tidemark.airflow.doorbell import Doorbell

Rings = Callable[[], Any]
SECONDS = 0.05


@pytest.fixture
def world(kafka: str, warehouse: dict[str, Any], topic: Callable[..., str], group: str) -> World:
    return World(kafka, warehouse, topic(partitions=2), group)


@pytest.fixture
def bell(world: World, monkeypatch: pytest.MonkeyPatch) -> "Doorbell":
    """The region's, with its connections where a triggerer finds them."""
    for connection in (kafka_connection(world.kafka), postgres_connection(world.warehouse)):
        monkeypatch.setenv(*connection.to_env())
    return bell_of(world, group=world.group.group_id)


def bell_of(world: World, topics: list[str] | None = None, group: str = "") -> "Doorbell":
    from tidemark.airflow.doorbell import Doorbell

    return Doorbell(
        region=world.region,
        topics=topics or [world.topic],
        kafka="tidemark_kafka",
        warehouse="tidemark_warehouse",
        seconds=SECONDS,
        group=group,
    )


@asynccontextmanager
async def listening(bell: "Doorbell") -> AsyncIterator[Callable[..., Any]]:
    """A function that waits for the next ring and says how many offsets wait; None: silence."""
    rings: asyncio.Queue[int] = asyncio.Queue()

    async def listen() -> None:
        async for event in bell.run():
            rings.put_nowait(event.payload["unread_offsets"])

    async def heard(within: float = 120) -> int | None:
        try:
            return await asyncio.wait_for(rings.get(), within)
        except TimeoutError:
            return None

    task = asyncio.create_task(listen())
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_it_rings_once_for_what_waits_and_again_after_a_run(world: World, bell: "Doorbell") -> None:
    """B21."""

    async def story() -> None:
        async with listening(bell) as heard:
            assert await heard(within=1) is None, "nothing waits"
            world.produce(3)
            assert await heard() == 3, "a region that never opened"
            world.produce(2, partition=1)
            assert await heard(within=1) is None, "one ring is enough"
            await asyncio.to_thread(world.run, "first")
            assert await heard(within=1) is None, "all is read"
            world.produce(1, start=3)
            assert await heard() == 1

    asyncio.run(story())


def test_it_is_silent_beside_a_run_and_after_one_that_failed(
    world: World, bell: "Doorbell"
) -> None:
    world.produce(3)
    world.open("open")

    async def story() -> None:
        async with listening(bell) as heard:
            assert await heard(within=1) is None, "a run is at work"
            await asyncio.to_thread(world.reset, "open")
            assert await heard(within=1) is None, "the floor tries it again"
            await asyncio.to_thread(world.run, "next", max_batches=1, max_records=1)
            assert await heard() == 2, "a bound left some"

    asyncio.run(story())


def test_it_rings_after_what_a_person_did(world: World) -> None:
    """B21, G87: a reset, a replay: an epoch without a run, and records wait."""
    asked = Broker(kafka_config(world.connections["tidemark_kafka"]))
    order = Order("test", "a test")

    def looks() -> tuple[int, bool]:
        found = unread(world.ledger(), asked, world.region, [world.topic])
        return found.offsets, found.is_at_rest

    produce(world.kafka, world.topic, [BAD])
    world.run("first")
    world.produce(1, start=1)
    world.reset()
    assert looks() == (1, True)
    replayed = replay_dead_letters(
        world.pipeline, world.connections, ALL_DEAD_LETTERS, 9, order, world.executor_of
    )
    assert (replayed.applied, looks()) == (True, (1, True))
    world.open("dies")
    world.reset("dies")
    assert looks() == (1, False), "the floor tries it again"
    world.reset()
    assert looks() == (1, True)


def test_a_ring_that_nobody_answered_is_repeated(
    world: World, bell: "Doorbell", monkeypatch: pytest.MonkeyPatch
) -> None:
    world.produce(3)

    async def story() -> None:
        async with listening(bell) as heard:
            assert await heard() == 3
            monkeypatch.setattr("tidemark.airflow._rings.AGAIN_SECONDS", 0)
            assert await heard() == 3

    asyncio.run(story())


def test_after_an_open_that_was_refused_it_waits_for_records_or_another_file(
    world: World, bell: "Doorbell", monkeypatch: pytest.MonkeyPatch
) -> None:
    """G188: however often it may ring."""
    monkeypatch.setattr("tidemark.airflow._rings.AGAIN_SECONDS", 0)
    monkeypatch.setattr("tidemark.airflow._rings.interval", lambda floor: 0.0)
    world.produce(1)
    world.run("first")
    world.settings["decode"] = {"schema": {"value": "int"}}
    world.produce(1, start=1)
    with pytest.raises(Refused):
        world.open("refused")
    bell.fingerprint = file_fingerprint(world.pipeline)

    async def story() -> None:
        async with listening(bell) as heard:
            assert await heard(within=1) is None, "an open was refused, and nothing has changed"
            world.produce(1, start=2)
            assert await heard() == 2, "a record came"
            with pytest.raises(Refused):
                await asyncio.to_thread(world.open, "again")
            await silence(heard)
        world.settings.clear()
        corrected = bell_of(world)
        corrected.fingerprint = file_fingerprint(world.pipeline)
        async with listening(corrected) as heard:
            assert await heard() == 2, "the file is another one"

    asyncio.run(story())


def test_an_open_that_lacks_a_connection_is_known_to_the_ledger_it_can_reach(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G188: Airflow's task; it does not even come to the open."""
    from tests.support.airflows import AirflowNotFoundException

    from tidemark.airflow import pipeline_dag, tasks

    world.run("first")
    file = tmp_path / "lacking.yaml"
    file.write_text(yaml.safe_dump(world.file))
    monkeypatch.setenv(*postgres_connection(world.warehouse).to_env())

    def lacking(_: object) -> None:
        raise AirflowNotFoundException("tidemark_kafka")

    monkeypatch.setattr(tasks, "resolve", lacking)
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="open", get_task_states=lambda **_: {})
    context = {
        "ti": ti,
        "task": pipeline_dag(file).get_task("open"),
        "params": {},
        "dag_run": SimpleNamespace(run_type="manual"),
    }
    with pytest.raises(AirflowNotFoundException):
        tasks.open_run(str(file), context, timedelta(0))
    rows = "SELECT run_id, code FROM tidemark.refused_opens"
    assert world.sql(rows) == [("dag/run", "AirflowNotFoundException")]


async def silence(heard: Callable[..., Any]) -> None:
    """What was rung before the ledger knew of the refusal is passed over."""
    while await heard(within=1) is not None:
        pass


def unread_now(epoch: int = 1, end: int = 1, refused_at: int | None = None) -> Unread:
    """A region at rest with one offset to read."""
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=refused_at or 0)
    refused = RefusedOpen("run", "REFUSED", "Case", "file", at) if refused_at is not None else None
    return Unread(epoch, 1, True, {TopicPartition("t", 0): end}, refused)


def rung(
    bell: Any, found: Callable[[float], Unread], clock: list[float], until: float
) -> list[int]:
    """The minutes in which it rings, looked at in each."""
    minutes = []
    while clock[0] < until:
        if bell.is_due(found(clock[0])):
            minutes.append(int(clock[0] // 60))
        clock[0] += 60
    return minutes


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lambda _: unread_now(), id="a run that leaves neither epoch nor word"),
        pytest.param(
            lambda now: unread_now(end=int(now), refused_at=int(now)), id="refused, records come"
        ),
        pytest.param(lambda now: unread_now(refused_at=int(now)), id="refused, its file differs"),
    ],
)
def test_rings_of_one_epoch_are_further_apart_each_time_up_to_the_floor(
    found: Callable[[float], Unread],
) -> None:
    """G188: a run that never opens is not started over and over."""
    from tidemark.airflow._rings import Rings

    clock = [0.0]
    bell = Rings("mine", "0 * * * *", lambda: clock[0])
    assert rung(bell, found, clock, 4 * 3600) == [0, 5, 15, 35, 75, 135, 195]
    yearly = Rings("mine", "0 0 1 1 *", lambda: clock[0])
    clock[0] = 0.0
    assert len(rung(yearly, found, clock, 7 * 86_400)) == 11
    assert bell.is_due(replace(found(clock[0]), epoch=2, refused=None)), "another epoch"


def test_a_refusal_is_waited_out_however_often_it_is_tried_elsewhere() -> None:
    """G188: the floor's runs are refused too, each with the records that were there."""
    from tidemark.airflow._rings import Rings

    clock = [0.0]
    bell = Rings("file", "0 * * * *", lambda: clock[0])

    def found(now: float) -> Unread:
        return unread_now(end=int(now // 3600), refused_at=int(now // 3600))

    assert rung(bell, found, clock, 86_400) == []


def test_what_can_not_be_asked_is_waited_for(
    world: World, bell: "Doorbell", caplog: pytest.LogCaptureFixture
) -> None:
    late = bell_of(world, [f"{world.topic}-late"])

    async def story() -> None:
        async with listening(late) as heard:
            await asyncio.to_thread(until, lambda: "the backlog is unknown" in caplog.text)
            assert await heard(within=SECONDS) is None

    asyncio.run(story())
    assert f"{world.topic}-late" in caplog.text


SESSIONS_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %(who)s"


def test_it_logs_in_as_airflow_says_now(
    world: World, bell: "Doorbell", stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G190: a password that changes while it looks, and a Kafka that moves."""
    role = f"bell_{world.region}"
    world.run("first")
    administer(stack.postgres, f"CREATE ROLE {role} LOGIN PASSWORD 'before'")
    world.sql(f"GRANT USAGE ON SCHEMA tidemark TO {role}")
    world.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA tidemark TO {role}")

    def known_to_airflow(password: str) -> None:
        login = world.warehouse | {"user": role, "password": password}
        monkeypatch.setenv(*postgres_connection(login).to_env())

    known_to_airflow("before")
    monkeypatch.setenv(*kafka_connection("127.0.0.1:1").to_env())

    async def story() -> None:
        async with listening(bell) as heard:
            world.produce(1)
            assert await heard(within=1) is None, "Kafka is away"
            monkeypatch.setenv(*kafka_connection(world.kafka).to_env())
            assert await heard() == 1
            await asyncio.to_thread(world.run, "next")
            administer(stack.postgres, f"ALTER ROLE {role} PASSWORD 'after'")
            administer(stack.postgres, SESSIONS_END, who=role)
            world.produce(1, start=1)
            assert await heard(within=1) is None, "it may not log in"
            known_to_airflow("after")
            assert await heard() == 1

    try:
        asyncio.run(story())
    finally:
        world.sql(f"REVOKE ALL ON ALL TABLES IN SCHEMA tidemark FROM {role}")
        world.sql(f"REVOKE ALL ON SCHEMA tidemark FROM {role}")
        administer(stack.postgres, f"DROP ROLE {role}")


class Server:
    """Lets in whoever has its password; and what Airflow knows of it."""

    def __init__(self) -> None:
        self.now, self.password, self.known = 0.0, "one", "one"
        self.logins: list[float] = []
        self.ended = 0

    async def resolved(self, conn_id: str) -> Connection:
        return Connection(conn_id, "kafka", password=self.known)

    def client(self) -> Any:
        from tidemark.airflow._shared import CantLook, SharedClient

        server = self

        class Shared(SharedClient[str, str]):
            def made(self, connection: Connection) -> str | None:
                server.logins.append(server.now)
                return connection.password

            def asked(self, client: str, keys: Iterable[str]) -> dict[str, str | CantLook]:
                if client != server.password:
                    raise BrokersSilent(what="Kafka", seconds=1)
                return dict.fromkeys(keys, client)

            def ended(self, client: str) -> None:
                server.ended += 1

        shared = Shared("kafka", lambda: self.now)
        shared.keys["key"] += 1
        return shared

    async def looks(self, client: Any, until: float) -> object:
        """What is told in the end of a look each ten seconds."""
        found: object = None
        while self.now < until:
            found = await client.look("key", 10)
            self.now += 10
        return found


def test_a_refused_login_is_tried_less_and_less_often_until_airflow_knows_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G190: a server may lock an account. A client that failed is let go, one that works kept."""
    from tidemark.airflow import _shared

    server = Server()
    monkeypatch.setattr(_shared, "resolved", server.resolved)

    async def story() -> None:
        client = server.client()
        assert await server.looks(client, 3600) == "one"
        assert (server.logins, server.ended) == ([0.0], 0), "Airflow says the same"
        server.password = "two"
        assert await server.looks(client, 2 * 3600) != "one"
        assert (len(server.logins), server.ended) == (16, 16)
        server.known = "two"
        assert await server.looks(client, server.now + 130) == "two"
        assert len(server.logins) == 17
        server.password = server.known = "three"
        assert await server.looks(client, server.now + 130) == "three"

    asyncio.run(story())


def test_fifty_doorbells_share_a_client_a_session_and_two_threads(
    world: World, bell: "Doorbell", monkeypatch: pytest.MonkeyPatch
) -> None:
    """G191: and none of them keeps another waiting, nor a thread of Airflow's own pool."""
    from tidemark.airflow import _looks

    made: list[Broker] = []

    def counted(config: dict[str, str]) -> Broker:
        made.append(Broker(config))
        return made[-1]

    monkeypatch.setattr(_looks, "Broker", counted)
    world.run("first")
    world.produce(3)
    bells = [bell_of(world, [f"{world.topic}-missing"]), *(bell_of(world) for _ in range(50))]
    for number, one in enumerate(bells):
        one.region = f"{world.region}-{number}"
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"

    until(lambda: world.sql(count) == [(1,)])  # those of the run are gone

    async def first(one: "Doorbell") -> Any:
        return await anext(aiter(one.run()))

    async def story() -> None:
        asyncio.get_running_loop().set_default_executor(NoExecutor())
        silent, *rings = (asyncio.ensure_future(first(one)) for one in bells)
        rung = await asyncio.wait_for(asyncio.gather(*rings), 120)
        assert [one.payload["unread_offsets"] for one in rung] == [3] * 50
        assert not silent.done()
        assert world.sql(count) == [(2,)], "this look's own, and one for all"
        silent.cancel()
        await asyncio.gather(silent, return_exceptions=True)

    asyncio.run(story())
    assert len(made) == 1
    named = [one for one in threading.enumerate() if one.name.startswith("tidemark-doorbell")]
    assert 0 < len(named) <= 2


class NoExecutor(ThreadPoolExecutor):
    """In place of the pool that all triggers share."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a thread of Airflow's own pool is taken")


def test_it_tells_the_ledger_whether_it_can_look(world: World, bell: "Doorbell") -> None:
    """G189."""
    world.run("first")
    blind = bell_of(world, [f"{world.topic}-missing"])

    def said(code: str | None) -> Callable[[], bool]:
        return lambda: world.sql("SELECT code FROM tidemark.doorbells") == [(code,)]

    async def story() -> None:
        async with listening(blind):
            await asyncio.to_thread(until, said("INVALID_SETTINGS"))
        async with listening(bell):
            await asyncio.to_thread(until, said(None))

    asyncio.run(story())


def test_a_ledger_that_lacks_the_region_of_the_offsets_is_named(
    world: World,
    bell: "Doorbell",
    stack: LocalStack,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """G193: a region that looks new there would be rung for without end."""
    world.produce(3)
    world.run("first")

    async def story() -> None:
        async with listening(bell) as heard:
            await asyncio.to_thread(until, lambda: "leads to another database" in caplog.text)
            assert await heard(within=0.5) is None

    with copied(stack) as other:
        monkeypatch.setenv(*postgres_connection(other).to_env())
        asyncio.run(story())


def test_airflow_keeps_ids_and_no_secret(world: World, bell: "Doorbell") -> None:
    path, kept = bell.serialize()
    assert path == "tidemark.airflow.doorbell.Doorbell"
    assert type(bell)(**kept).serialize() == (path, kept)
    assert world.warehouse["password"] not in str(kept)


def test_a_dag_is_scheduled_by_records_and_by_the_floor(tmp_path: Path) -> None:
    from tests.support.airflows import DagSerialization

    from tidemark.airflow import on_data, pipeline_dag

    file = Path("dags/flights.yaml")
    dag = pipeline_dag(file, schedule=on_data(file, floor="*/15 * * * *"))
    written = DagSerialization.to_dict(dag)["dag"]["timetable"]
    assert "*/15 * * * *" in str(written)
    assert "flights/doorbell" in str(written)
    with pytest.raises(InvalidSettings):
        on_data(tmp_path / "missing.yaml")


def test_airflows_own_ways_to_tell_are_handed_on() -> None:
    """What docs/schedules.md shows."""
    from tests.support.airflows import (
        AsyncCallback,
        DagSerialization,
        DeadlineAlert,
        DeadlineReference,
    )

    from tidemark.airflow import pipeline_dag

    late = DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=30),
        callback=AsyncCallback(page_somebody, kwargs={"text": "late"}),
    )
    dag = pipeline_dag("dags/flights.yaml", on_failure_callback=print, deadline=late)
    written = DagSerialization.to_dict(dag)["dag"]
    assert written["has_on_failure_callback"] is True
    assert f"{__name__}.page_somebody" in str(written["deadline"])


async def page_somebody(text: str, context: dict[str, object]) -> None:
    """What a team would use."""


BELL = """
import asyncio, json, sys
from contextlib import suppress
from importlib import import_module
opened = []
sys.addaudithook(lambda event, facts: opened.append(str(facts[0])) if event == "open" else None)
path, kept, *folders = json.loads(sys.argv[1])
module, _, name = path.rpartition(".")
class Looked(Exception):
    pass
async def sleep(seconds):
    raise Looked
asyncio.sleep = sleep
bell = getattr(import_module(module), name)(**kept)
with suppress(Looked):
    asyncio.run(anext(bell.run()))
bundle = [name for name in sys.modules if name.partition(".")[0] in ("dags", "jobs", "flights")]
bundle += [file for file in opened if file.startswith(tuple(folders))]
print(json.dumps([type(bell).__name__, "tidemark.views.status" in sys.modules, bundle]))
"""


@pytest.mark.long
def test_the_doorbell_needs_nothing_of_a_bundle(tmp_path: Path, connections: str) -> None:
    """G136: a triggerer does not initialise bundles. It looks, imports and opens nothing of one."""
    from tidemark.airflow import on_data

    schedule = on_data(PROJECT / "dags" / "flights.yaml")
    [watcher] = schedule.asset_condition.objects[0].watchers
    path, kept = watcher.trigger.serialize()
    assert str(PROJECT) not in json.dumps(kept)
    folders = [f"{PROJECT}/{name}/" for name in ("dags", "jobs")]
    done = subprocess.run(
        [sys.executable, "-c", BELL, json.dumps([path, kept, *folders])],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == ["Doorbell", True, []]
