"""The error that ended a run, as its tasks have kept it: the code alone, which names no data."""

from collections.abc import Iterable

from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.settings.described import ERROR


def first_errors(dag_run_ids: Iterable[int], session: Session) -> dict[int, tuple[str, str]]:
    """By the run's id: the task that failed first of those that kept an error, and its code."""
    kept = session.execute(
        select(XComModel.dag_run_id, XComModel.task_id, XComModel.value)
        .where(XComModel.dag_run_id.in_(list(dag_run_ids)), XComModel.key == ERROR)
        .order_by(XComModel.timestamp.desc())
    )
    return {run: (task_id, str(code)) for run, task_id, code in kept}
