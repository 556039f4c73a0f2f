"""The error that ended a run, as its tasks have kept it: the code alone, which names no data.

Any task of any DAG may write what it likes under that key: only our codes are taken, and what else
is there never leaves the database, however large.
"""

from collections.abc import Iterable

from airflow.models.xcom import XComModel
from sqlalchemy import String, cast, select
from sqlalchemy.orm import Session

from tidemark.errors import by_code
from tidemark.settings.described import ERROR


def first_errors(dag_run_ids: Iterable[int], session: Session) -> dict[int, tuple[str, str]]:
    """By the run's id: the task that failed first of those that kept an error, and its code."""
    codes = {f'"{code}"': code for code in by_code()}  # as JSON, which the database keeps
    value = cast(XComModel.value, String)
    kept = session.execute(
        select(XComModel.dag_run_id, XComModel.task_id, value)
        .where(
            XComModel.dag_run_id.in_(list(dag_run_ids)),
            XComModel.key == ERROR,
            value.in_(list(codes)),
        )
        .order_by(XComModel.timestamp.desc())
    )
    return {run: (task_id, codes[code]) for run, task_id, code in kept}
