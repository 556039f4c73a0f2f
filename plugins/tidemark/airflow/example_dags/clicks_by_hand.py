"""A run that is wired by hand, with a check of its own; and a reader that waits for a whole day."""

from pathlib import Path

from airflow.providers.common.sql.operators.sql import SQLTableCheckOperator
from airflow.sdk import DAG, task

from tidemark.airflow import (
    CloseOperator,
    DrainOperator,
    OpenOperator,
    RegionSensor,
    VerdictOperator,
    run_params,
)

FILE = Path(__file__).with_suffix(".yaml")

with DAG(
    "example_by_hand",
    schedule=None,
    max_active_runs=1,
    params=run_params(),
    tags=["tidemark"],
    doc_md="Drain the topic, check the table, then judge the run.",
):
    opened = OpenOperator(task_id="open", pipeline=FILE)
    drained = DrainOperator.partial(task_id="drain", pipeline=FILE).expand(member=[1, 2])
    closed = CloseOperator(task_id="close", pipeline=FILE)
    check = SQLTableCheckOperator(
        task_id="check",
        conn_id="tidemark_warehouse",
        table="public.clicks_by_hand",
        checks={"users": {"check_statement": "count(*) = count(user_name)"}},
    )
    verdict = VerdictOperator(task_id="verdict", pipeline=FILE)
    opened >> drained >> closed >> check >> verdict.as_bound_of(opened)

with DAG(
    "example_reader",
    schedule=None,
    tags=["tidemark"],
    doc_md="Wait until the table of example_by_hand is whole, then count.",
):
    whole = RegionSensor(
        task_id="whole",
        pipeline=FILE,
        complete_at="{{ dag_run.run_after }}",  # all that Kafka held when this run was asked for
        poke_interval=10,
        deferrable=True,
    )

    @task
    def count() -> str:
        """Reads a table that is whole."""
        return "counted"

    whole >> count()
