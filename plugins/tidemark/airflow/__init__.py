"""Airflow: the operators, a sensor, the task group and the DAG factories.

Doors: compat; DAG files import what stands in `__all__`.

Nothing of it runs in the scheduler, and parsing a DAG file imports no client and no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemark.airflow.assets import complete_asset, target_asset
    from tidemark.airflow.dag import on_data, pipeline_dag, pipeline_task_group
    from tidemark.airflow.forms import run_params
    from tidemark.airflow.manual import replay_dag, reset_dag
    from tidemark.airflow.operators import (
        CloseOperator,
        DrainOperator,
        OpenOperator,
        ResetOperator,
        VerdictOperator,
    )
    from tidemark.airflow.sensor import RegionSensor

__all__ = [
    "CloseOperator",
    "DrainOperator",
    "OpenOperator",
    "RegionSensor",
    "ResetOperator",
    "VerdictOperator",
    "complete_asset",
    "on_data",
    "pipeline_dag",
    "pipeline_task_group",
    "replay_dag",
    "reset_dag",
    "run_params",
    "target_asset",
]

_MODULES = {
    "CloseOperator": "operators",
    "DrainOperator": "operators",
    "OpenOperator": "operators",
    "RegionSensor": "sensor",
    "ResetOperator": "operators",
    "VerdictOperator": "operators",
    "complete_asset": "assets",
    "on_data": "dag",
    "pipeline_dag": "dag",
    "pipeline_task_group": "dag",
    "replay_dag": "manual",
    "reset_dag": "manual",
    "run_params": "forms",
    "target_asset": "assets",
}


def __getattr__(name: str) -> Any:
    """What a DAG file asks for, and no more: each parse of it pays for what it imports."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """The names that a DAG file may import."""
    return [*globals(), *__all__]
