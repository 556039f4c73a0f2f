"""Airflow: the operator, the task group and the DAG factories.

Doors: none; DAG files import what stands in `__all__`.

Nothing of it runs in the scheduler, and parsing a DAG file imports no client and no Spark.
"""

from tidemark.airflow.dag import on_data, pipeline_dag, pipeline_task_group
from tidemark.airflow.forms import run_params
from tidemark.airflow.manual import replay_dag, reset_dag
from tidemark.airflow.operator import DrainOperator
from tidemark.airflow.tasks import target_asset

__all__ = [
    "DrainOperator",
    "on_data",
    "pipeline_dag",
    "pipeline_task_group",
    "replay_dag",
    "reset_dag",
    "run_params",
    "target_asset",
]
