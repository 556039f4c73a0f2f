"""Factories of the DAGs that a person starts by hand: a reset, a replay."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from tidemark.airflow.dag import TOOLS, dag_of, described, step
from tidemark.airflow.docs import replay_doc, reset_doc
from tidemark.airflow.forms import replay_params, reset_params
from tidemark.airflow.replays import ReplayOperator, replay_by_hand
from tidemark.airflow.tasks import reset_by_hand, target_assets
from tidemark.settings.described import Role
from tidemark.settings.pipeline import Pipeline

RESET_TIMEOUT = timedelta(hours=6)
"""By hand: a rewind removes all rows since a checkpoint in one statement."""

REPLAY_TIMEOUT = timedelta(hours=6)
"""By hand: one Spark job, and one statement that moves its rows."""


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
    dag_kwargs["tags"] = {TOOLS, *dag_kwargs.pop("tags", ())}
    with dag_of(dag_id, pipeline, reset_params(), schedule=None, **dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or reset_doc(pipeline)
        step(
            "reset",
            reset_by_hand,
            str(path),
            doc_json=described(pipeline, Role.reset),
            execution_timeout=reset_timeout,
            inlets=assets,  # their newest event says what is known already
            outlets=assets,
        )
    return dag


def replay_dag(
    path: str | Path, *, replay_timeout: timedelta = REPLAY_TIMEOUT, **dag_kwargs: Any
) -> DAG:
    """The DAG by which a person replays dead letters or one batch: manual, dry unless told.

    A replay that is not done within replay_timeout is ended, and changes nothing.
    dag_kwargs are Airflow's own, without a schedule. dag_id is `<region>_replay` by default; params
    stand beside those of the form.

    Raises:
        InvalidSettings: the file is wrong, or a param has the name of one of the form; Airflow
            shows it as the DAG's import error.
    """
    pipeline = Pipeline.load(path)
    dag_id = dag_kwargs.pop("dag_id", f"{pipeline.region}_replay")
    dag_kwargs["tags"] = {TOOLS, *dag_kwargs.pop("tags", ())}
    with dag_of(dag_id, pipeline, replay_params(), schedule=None, **dag_kwargs) as dag:
        dag.doc_md = dag.doc_md or replay_doc(pipeline)
        step(
            "replay",
            replay_by_hand,
            str(path),
            operator=ReplayOperator,
            doc_json=described(pipeline, Role.replay),
            execution_timeout=replay_timeout,
        )
    return dag
