"""A sensor waits for a region's checkpoint, or until it is complete at a time."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.dags.test_wiring import run_by_airflow
from tests.support.world import World

from tidemark.errors import InvalidSettings

if TYPE_CHECKING:
    from tidemark.airflow.sensor import RegionSensor, RegionTrigger

FILE = "dags/pipeline.yaml"


def complete_at(region: World) -> datetime:
    [(found,)] = region.sql("SELECT complete_at FROM tidemark.completeness")
    assert isinstance(found, datetime)
    return found


def sensor(**arguments: Any) -> "RegionSensor":
    from tidemark.airflow import RegionSensor

    return RegionSensor(task_id="waits", pipeline=FILE, **arguments)


def trigger(region: World, **wanted: Any) -> "RegionTrigger":
    from tidemark.airflow.sensor import RegionTrigger

    usual = {"seq": None, "complete_at": None}
    return RegionTrigger(
        region=region.region, warehouse="tidemark_warehouse", wanted=usual | wanted, seconds=0.05
    )


@pytest.mark.long
def test_airflow_lets_each_sensor_end_as_the_ledger_says(
    region: World, environment: dict[str, str]
) -> None:
    """B24: in reality, poked and deferred; runs come until all have ended."""
    later = (complete_at(region) + timedelta(microseconds=1)).isoformat()
    given = (str(Path(FILE).resolve()), "1", later)
    own = dict(one.to_env() for one in region.connections.values())
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run_by_airflow, environment | own, "sensors.py", *given)
        runs = 0
        while not ended.done():
            runs += 1
            region.run(f"again {runs}")
    found = ended.result()
    assert found["states"] == {
        "head": "success",
        "whole": "success",
        "both": "success",
        "never": "failed",
        "nonsense": "failed",
    }
    results = found["results"]
    assert results.keys() == {"head", "whole", "both"}
    assert {one["region"] for one in results.values()} == {region.region}
    assert results["whole"]["complete_at"] >= later


def test_a_deferred_wait_ends_when_the_ledger_says_so(region: World) -> None:
    """B24: and what it saw only ends the wait."""
    from tidemark.airflow.compat import TaskDeferred

    later = complete_at(region) + timedelta(microseconds=1)
    waits = sensor(at_least=1, complete_at=later, deferrable=True, timeout=3600)
    with pytest.raises(TaskDeferred) as deferred:
        waits.execute({})
    kept = deferred.value
    assert timedelta(0) < kept.timeout <= timedelta(hours=1)
    assert kept.trigger.serialize()[1]["warehouse"] == "tidemark_warehouse"
    with pytest.raises(TaskDeferred) as again:
        waits.look({}, **kept.kwargs, event={"region": region.region})
    assert again.value.timeout <= kept.timeout
    region.run("second")
    fired = asyncio.run(first_event(kept.trigger))
    assert fired == {"region": region.region}
    found = waits.look({}, **kept.kwargs, event=fired)
    assert found is not None
    assert found["epoch"] == 2


async def first_event(trigger: "RegionTrigger") -> dict[str, Any]:
    async for event in trigger.run():
        found: dict[str, Any] = event.payload
        return found
    pytest.fail("it fired no event")


def test_a_trigger_asks_again_what_it_could_not_ask(
    region: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage ends no wait, and its log names it once."""

    async def waited() -> dict[str, Any]:
        waiting = asyncio.create_task(first_event(trigger(region, seq=1)))
        async with asyncio.timeout(60):
            while not caplog.records:
                await asyncio.sleep(0.05)
        region.sql("ALTER VIEW tidemark.hidden RENAME TO completeness")
        return await waiting

    region.sql("ALTER VIEW tidemark.completeness RENAME TO hidden")
    assert asyncio.run(waited()) == {"region": region.region}
    [said] = [one for one in caplog.records if one.name == "tidemark.airflow.sensor"]
    assert region.region in said.getMessage()


def test_a_region_that_never_opened_is_waited_for(region: World) -> None:
    region.sql("UPDATE tidemark.regions SET region = 'another'")
    assert not sensor(at_least=0).poke({}).is_done


@pytest.mark.parametrize(
    "arguments",
    [{}, {"at_least": "newest"}, {"complete_at": "yesterday"}],
    ids=["nothing", "no seq", "no time"],
)
def test_what_can_not_be_waited_for_is_refused(region: World, arguments: dict[str, str]) -> None:
    """The first when Airflow reads the file; a template is known when the task runs."""
    from tidemark.airflow.compat import AirflowFailException

    with pytest.raises((InvalidSettings, AirflowFailException)) as refused:
        sensor(**arguments).poke({})
    assert isinstance(refused.value, AirflowFailException) == bool(arguments)


def test_a_wrong_file_is_an_import_error(region: World) -> None:
    Path(FILE).write_text("region: a\n")
    with pytest.raises(InvalidSettings):
        sensor(at_least=1)
