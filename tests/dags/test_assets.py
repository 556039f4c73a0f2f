"""What a close may tell: which assets it has, and how an event of periods becomes one for each."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tidemark.settings.pipeline import Pipeline

FLIGHTS = Path(__file__).parents[2] / "dags" / "flights.yaml"


@pytest.fixture
def hourly(tmp_path: Path) -> Path:
    """The worked example, with hours."""
    file = tmp_path / "flights.yaml"
    said = yaml.safe_load(FLIGHTS.read_text()) | {"complete": {"every": "hour"}}
    file.write_text(yaml.safe_dump(said))
    return file


class Events(dict[Any, Any]):
    """Airflow's own accessors, made as they are asked for."""

    def __missing__(self, asset: Any) -> Any:
        from airflow.sdk.definitions.asset import AssetUniqueKey
        from airflow.sdk.execution_time.context import OutletEventAccessor

        self[asset] = OutletEventAccessor(AssetUniqueKey.from_asset(asset))
        return self[asset]


@pytest.fixture
def context(hourly: Path) -> Any:
    """Of a close that runs."""
    from tidemark.airflow import CloseOperator

    task = CloseOperator(task_id="close", pipeline=hourly)
    return {"ti": SimpleNamespace(task=task), "outlet_events": Events()}


def test_periods_are_an_asset_of_their_own(hourly: Path, context: Any) -> None:
    """B27: who schedules on rows hears of rows alone."""
    from tidemark.airflow import complete_asset, target_asset

    asset = complete_asset(hourly)
    assert (asset.name, asset.uri) == (
        "tidemark_warehouse/public.flights/complete",
        "tidemark://tidemark_warehouse/public/flights/complete",
    )
    own = f"{target_asset(hourly).name}"
    assert [one.name for one in context["ti"].task.outlets] == [own, f"{own}/address", asset.name]


def test_periods_that_nobody_asked_for_are_no_asset() -> None:
    from tidemark.airflow import complete_asset
    from tidemark.airflow.errors import AssetOfNoPeriods

    with pytest.raises(AssetOfNoPeriods) as refused:
        complete_asset(FLIGHTS)
    assert (refused.value.region, refused.value.file) == ("flights", FLIGHTS)


def test_each_period_is_an_event_of_its_own(
    hourly: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B27: a task of an Airflow before 3.3 sends one, without a key."""
    from tidemark.airflow import assets, compat

    pipeline, task = Pipeline.load(hourly), context["ti"].task
    assets.send_nothing(context, pipeline)
    assert [type(one).__name__ for one in task.outlets] == ["AssetAlias"]
    [asset] = assets.complete_assets(pipeline)
    if compat.VERSION >= (3, 3):
        assets.send(context, [asset], {"kind": "complete"}, ["a", "b"])
        event = context["outlet_events"][asset]
        assert (event.extra, event.partition_keys) == ({"kind": "complete"}, {"a", "b"})
    monkeypatch.setattr(compat, "VERSION", (3, 2))
    context["outlet_events"].clear()
    assets.send(context, [asset], {"kind": "complete"}, ["a", "b"])
    event = context["outlet_events"][asset]
    assert (event.extra, getattr(event, "partition_keys", set())) == ({"kind": "complete"}, set())
    assert asset in task.outlets


def test_an_event_names_some_of_many_losses(hourly: Path) -> None:
    """Airflow keeps it once for each period and target, for as long as the region lives."""
    from tidemark.airflow.assets import complete_event
    from tidemark.ledger.periods import PeriodNews
    from tidemark.model.batch import Checkpoint
    from tidemark.protocol.close import Closed

    lost = [f"flights[{number}]@[0, 9)" for number in range(500)]
    news = PeriodNews((), (), datetime(2026, 10, 1, tzinfo=UTC), False, lost)
    closed = Closed(Checkpoint("flights", 1, 1, {}), 0, 0, 0, 0)
    told = complete_event(Pipeline.load(hourly), closed, news)
    assert told["accepted"] == [*lost[:20], "and 480 more"]
