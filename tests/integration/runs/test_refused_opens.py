"""What refused an open stands in the ledger until something else holds the epoch."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from tests.support.region import kafka_connection
from tests.support.world import World

from tidemark.admin.drop import drop_region
from tidemark.errors import DataLost, InvalidSettings, Refused, TidemarkError, Unreachable
from tidemark.ledger.actions import Order
from tidemark.ledger.starts import NO_STARTS, RefusedOpen, StartsLookup
from tidemark.model.plan import Bounds
from tidemark.runs import open as opens
from tidemark.runs.open import open_run
from tidemark.runs.region import region_of
from tidemark.settings.fingerprint import file_fingerprint
from tidemark.views.metrics import measures_of, metrics_of
from tidemark.views.status import in_ledger
from tidemark.views.verdict import Level, verdict_of

BOUNDS = Bounds(1000)


def refused(world: World) -> RefusedOpen | None:
    """As the ledger knows it now."""
    with region_of(world.pipeline, world.connections) as region:
        return in_ledger(region).starts.refused


def other_columns(world: World, _: AdminClient) -> None:
    world.settings["decode"] = {"schema": {"value": "int"}}


def no_such_topic(world: World, _: AdminClient) -> None:
    world.settings["kafka"] = {"topics": [f"{world.topic}-missing"]}


def lost_records(world: World, admin: AdminClient) -> None:
    world.produce(3, start=3)
    [done] = admin.delete_records([KafkaPartition(world.topic, 0, 5)]).values()
    done.result(120)


def another_region(world: World, _: AdminClient) -> None:
    world.settings["kafka"] = {"group": f"{world.region}-other"}


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (other_columns, Refused),
        (no_such_topic, InvalidSettings),
        (lost_records, DataLost),
        (another_region, Refused),
    ],
)
def test_what_refused_an_open_stands_in_the_ledger_until_the_next_epoch(
    world: World, admin: AdminClient, spoil: Callable[..., None], error: type[TidemarkError]
) -> None:
    """B21, G188."""
    world.produce(3)
    world.run("first")
    spoil(world, admin)
    with pytest.raises(error) as met:
        world.open("next")
    found = refused(world)
    assert found is not None
    assert (found.run_id, found.code, found.case) == ("next", met.value.code, met.value.case)
    assert found.fingerprint == file_fingerprint(world.pipeline)
    world.settings.clear()
    world.reset(overrides=())
    assert refused(world) is None, "the reset took an epoch"


def test_a_kafka_that_is_away_is_known_to_the_ledger(world: World) -> None:
    world.produce(1)
    world.run("first")
    away = {**world.connections, "tidemark_kafka": kafka_connection("127.0.0.1:1")}
    with pytest.raises(Unreachable):
        open_run(world.pipeline, away, run_id="next", bounds=BOUNDS)
    found = refused(world)
    assert found is not None
    assert found.code == Unreachable.code


def test_a_time_out_of_the_task_is_kept_and_that_somebody_ended_it_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's own time-out is no Exception."""

    class TaskTimeout(BaseException):
        pass

    world.run("first")
    for met, kept in ((KeyboardInterrupt, None), (TaskTimeout, "TaskTimeout")):

        def ends(*_: object, met: type[BaseException] = met) -> None:
            raise met("by secret")

        monkeypatch.setattr(opens, "opening_facts", ends)
        with pytest.raises(met):
            world.open("next")
        found = refused(world)
        assert (found and found.code) == kept
        assert "secret" not in str(found)


def test_a_refused_open_and_a_doorbell_are_seen_in_status_and_metrics(world: World) -> None:
    """G189."""
    world.run("first")
    lookup = StartsLookup(world.ledger().engine)
    lookup.say_doorbells({world.region: ("UNREACHABLE", "BrokersUnreachable")})
    assert seen(world) == (Level.behind, "UNREACHABLE", [0.0], [])
    lookup.keep_refused_open(world.region, "next", ("DATA_LOST", "Case"), "")
    assert seen(world) == (Level.red, "DATA_LOST", [0.0], ["DATA_LOST"])
    lookup.say_doorbells({world.region: None})
    world.reset()
    assert seen(world) == (Level.well, None, [1.0], [])


REFUSED = "tidemark_open_refused_timestamp_seconds"


def seen(world: World) -> tuple[Any, ...]:
    """Level and code of the verdict; what metrics say of the doorbell, and of refused opens."""
    with region_of(world.pipeline, world.connections) as region:
        status = in_ledger(region)
        metrics = {one.name: one.samples for one in metrics_of([measures_of(region, status)])}
    judged = verdict_of(status)
    bells = [one.value for one in metrics.get("tidemark_doorbell_up", ())]
    codes = [one.labels["code"] for one in metrics.get(REFUSED, ())]
    return judged.level, judged.code, bells, codes


@pytest.mark.long
def test_nothing_of_it_is_left_of_a_dropped_region(world: World) -> None:
    world.run("first")
    lookup = StartsLookup(world.ledger().engine)
    lookup.keep_refused_open(world.region, "next", ("REFUSED", "Case"), "")
    lookup.say_doorbells({world.region: None})
    warehouse = world.connections["tidemark_warehouse"]
    drop_region(warehouse, world.region, Order("test", "a test"))
    assert lookup.starts([world.region]) == {world.region: NO_STARTS}
    assert not world.sql("SELECT 1 FROM tidemark.refused_opens")
    assert not world.sql("SELECT 1 FROM tidemark.doorbells")
