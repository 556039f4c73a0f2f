"""Factories: a pipeline's tasks as a DAG of their own, or as a group in a DAG you already have.

    open (setup) -> drain[1..N] -> close (ALL_DONE) -> reset (ONE_FAILED)
                                   [close, reset] -> verdict (NONE_FAILED): red stays red

As open is a setup, clearing any task clears it too: the work gets a new epoch. If open fails
nothing else runs: nothing was begun.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, TaskGroup, TriggerRule

from tidemark.airflow.docs import pipeline_doc, reset_doc
from tidemark.airflow.forms import reset_params, run_params
from tidemark.airflow.operator import DrainOperator
from tidemark.airflow.tasks import (
    close_run,
    open_run,
    reset_by_hand,
    reset_failed_run,
    target_assets,
    tell_verdict,
)
from tidemark.errors import InvalidSettings
from tidemark.settings.pipeline import Pipeline

Params = Mapping[str, Any]

RETRIES: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=5),
}
"""As long as Kafka needs to miss a killed member; a retry that comes sooner only waits."""

STEP_TIMEOUT = timedelta(minutes=10)
DRAIN_TIMEOUT = timedelta(hours=1)
RESET_TIMEOUT = timedelta(hours=6)
"""By hand: a rewind removes all rows since a checkpoint in one statement."""


def pipeline_dag(
    path: str | Path,
    *,
    schedule: Any = None,
    drain_timeout: timedelta = DRAIN_TIMEOUT,
    spark_conf: dict[str, str] | None = None,
    **dag_kwargs: Any,
) -> DAG:
    """The DAG of a pipeline file; dag_kwargs are Airflow's own.

    dag_id is the region's name by default; params stand beside those of the form.

    Raises:
        InvalidSettings: the file is wrong, or a param has the name of one of the form; Airflow
            shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    dag_id = dag_kwargs.pop("dag_id", pipeline.region)
    with _dag(dag_id, pipeline, run_params(), schedule=schedule, **dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or pipeline_doc(pipeline)
        _wire(str(path), pipeline, drain_timeout, spark_conf)
    return dag


def pipeline_task_group(
    path: str | Path,
    *,
    group_id: str | None = None,
    drain_timeout: timedelta = DRAIN_TIMEOUT,
    spark_conf: dict[str, str] | None = None,
    **group_kwargs: Any,
) -> TaskGroup:
    """The same tasks as a group of the DAG in whose `with` this is called.

    The group's last task is red when the run is not done, so what comes after it waits for
    rows that are really there. Give that DAG max_active_runs=1 and, if people start it by
    hand, params=run_params().

    Raises:
        InvalidSettings: the file is wrong; Airflow shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    defaults = RETRIES | group_kwargs.pop("default_args", {})
    with TaskGroup(
        group_id or pipeline.region,
        default_args=defaults,
        tooltip=f"Kafka to {pipeline.into}, exactly once",
        **group_kwargs,
    ) as group:
        _wire(str(path), pipeline, drain_timeout, spark_conf)
    return group


def reset_dag(
    path: str | Path, *, reset_timeout: timedelta = RESET_TIMEOUT, **dag_kwargs: Any
) -> DAG:
    """The DAG by which a person resets the region: manual, with a form, dry unless told otherwise.

    A rewind that is not done within reset_timeout removes nothing.
    dag_kwargs are Airflow's own, without a schedule. dag_id is `<region>_reset` by default; params
    stand beside those of the form.

    Raises:
        InvalidSettings: the file is wrong, or a param has the name of one of the form; Airflow
            shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    dag_id = dag_kwargs.pop("dag_id", f"{pipeline.region}_reset")
    assets = target_assets(pipeline)
    with _dag(dag_id, pipeline, reset_params(), schedule=None, **dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or reset_doc(pipeline)
        _step(
            "reset",
            reset_by_hand,
            str(path),
            execution_timeout=reset_timeout,
            inlets=assets,  # their newest event says what is known already
            outlets=assets,
        )
    return dag


def _dag(dag_id: str, pipeline: Pipeline, form: Params, *, schedule: Any, **kwargs: Any) -> DAG:
    kwargs["params"] = _beside(form, kwargs.pop("params", None) or {})
    kwargs["default_args"] = {"owner": "tidemark", **RETRIES, **kwargs.pop("default_args", {})}
    kwargs["tags"] = {"tidemark", pipeline.region, *kwargs.pop("tags", ())}
    usual = {"catchup": False, "max_active_runs": 1}
    return DAG(dag_id, schedule=schedule, **(usual | kwargs))


def _beside(form: Params, others: Params) -> Params:
    """The form's params and the caller's own.

    Raises:
        InvalidSettings: one of them would replace one of the form's.
    """
    taken = sorted(set(form) & set(others))
    if taken:
        raise InvalidSettings(
            f"params: {', '.join(taken)} of the form can't be replaced; give yours another name."
            " Bounds for every run are in the pipeline file, under batch"
        )
    return {**form, **others}


def _wire(
    path: str, pipeline: Pipeline, drain_timeout: timedelta, spark_conf: dict[str, str] | None
) -> None:
    opened = _step("open", open_run, path).as_setup()
    drain = DrainOperator.partial(
        task_id="drain",
        pipeline=path,
        conf=spark_conf,
        execution_timeout=drain_timeout,
        map_index_template="{{ task.task_id }}[{{ ti.map_index }}]",  # as the ledger names it
    ).expand(member=list(range(1, pipeline.members + 1)))
    assets = target_assets(pipeline)
    closed = _step(
        "close",
        close_run,
        path,
        trigger_rule=TriggerRule.ALL_DONE,
        inlets=assets,  # their newest event says what is known already
        outlets=assets,
    )
    reset = _step("reset", reset_failed_run, path, trigger_rule=TriggerRule.ONE_FAILED)
    verdict = _step(
        "verdict", tell_verdict, path, closed.output, trigger_rule=TriggerRule.NONE_FAILED
    )
    opened >> drain >> closed >> reset
    [closed, reset] >> verdict


def _step(task_id: str, function: Any, *arguments: Any, **kwargs: Any) -> PythonOperator:
    return PythonOperator(
        task_id=task_id,
        python_callable=function,
        op_args=arguments,
        doc_md=function.__doc__,
        show_return_value_in_logs=False,  # the task's own lines tell it to people
        **({"execution_timeout": STEP_TIMEOUT} | kwargs),
    )
