"""A run starts when records wait; what rings is late, doubled or lost without harm."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.dags.conftest import PROJECT
from tests.support.executor import BAD
from tests.support.produce import produce
from tests.support.region import kafka_connection, postgres_connection
from tests.support.waiting import until
from tests.support.world import World

from tidemark.admin.naming import rename_region
from tidemark.admin.replay import replay_dead_letters
from tidemark.errors import InvalidSettings
from tidemark.kafka.config import kafka_config
from tidemark.kafka.facts import Broker
from tidemark.ledger.actions import Order
from tidemark.ledger.kept_dead_letters import ALL_DEAD_LETTERS
from tidemark.views.status import unread

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
    return bell_of(world)


def bell_of(world: World, topics: list[str] | None = None) -> "Doorbell":
    from tidemark.airflow.doorbell import Doorbell

    return Doorbell(
        region=world.region,
        topics=topics or [world.topic],
        kafka="tidemark_kafka",
        warehouse="tidemark_warehouse",
        seconds=SECONDS,
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
    """B21, G87: a reset, a replay, another name: an epoch without a run, and records wait."""
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
    new, group = f"{world.region}_renamed", world.pipeline.group
    rename_region(world.pipeline, world.connections, new, order)
    world.region, world.settings["kafka"] = new, {"group": group}
    assert looks() == (1, True)
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
            monkeypatch.setattr("tidemark.airflow.doorbell.AGAIN_SECONDS", 0)
            assert await heard() == 3

    asyncio.run(story())


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


def test_airflow_keeps_ids_and_no_secret(world: World, bell: "Doorbell") -> None:
    path, kept = bell.serialize()
    assert path == "tidemark.airflow.doorbell.Doorbell"
    assert type(bell)(**kept).serialize() == (path, kept)
    assert world.warehouse["password"] not in str(kept)


def test_a_dag_is_scheduled_by_records_and_by_the_floor(tmp_path: Path) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

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
    from airflow.sdk import (  # type: ignore[attr-defined]  # its stub lacks them
        AsyncCallback,
        DeadlineAlert,
        DeadlineReference,
    )
    from airflow.serialization.serialized_objects import DagSerialization

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
opened = []
sys.addaudithook(lambda event, facts: opened.append(str(facts[0])) if event == "open" else None)
from airflow._shared.module_loading import import_string
path, kept, *folders = json.loads(sys.argv[1])
class Looked(Exception):
    pass
async def sleep(seconds):
    raise Looked
asyncio.sleep = sleep
bell = import_string(path)(**kept)
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
