"""A pipeline as a group of tasks in a TaskFlow DAG, with its result and with bad news."""

from pathlib import Path
from typing import Any

from airflow.sdk import dag, task

from tidemark.airflow import pipeline_task_group, run_params

FILE = Path(__file__).with_suffix(".yaml")


@dag(
    dag_id="example_grouped",
    schedule=None,  # or "@hourly", with allowed_run_types=["manual", "scheduled"]: no backfill
    max_active_runs=1,
    params=run_params(),
    tags=["tidemark"],
)
def clicks() -> None:
    """Drain the topic, then report."""
    drained = pipeline_task_group(FILE)

    @task
    def report(closed: dict[str, Any]) -> str:
        """Runs only behind a run that is done."""
        return f"{closed['rows']} rows, checkpoint {closed['seq']}"

    @task(trigger_rule="all_done")
    def tell() -> str:
        """Runs on bad days too."""
        return "the run has ended"

    drained >> [report(drained.result), tell()]


clicks()
