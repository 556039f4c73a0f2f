"""The note of a failed run: what ended it, and what to do, where Airflow shows the run.

A task keeps its error's code as XCom, and Airflow's scheduler, which loads this as a listener,
writes the note: tasks can't. A code alone, for whoever may read the DAG may read its notes, but not
its logs.
"""

from typing import Any

from airflow.listeners import hookimpl

from tidemark.page.log_error import remedy
from tidemark.settings.described import ERROR

OURS = "Tidemark: "
"""Each of our notes begins so; any other is a person's and stays."""


@hookimpl  # type: ignore[untyped-decorator]
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """The first error of its tasks is its note."""
    if first := _first_error(dag_run):
        _write(dag_run, note(*first))


@hookimpl  # type: ignore[untyped-decorator]
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """It was cleared, and its note is true no more."""
    _write(dag_run, None)


def note(task_id: str, code: str) -> str:
    """The error in one sentence, or two; Airflow shows notes as Markdown."""
    return f"{OURS}{code} in the task {task_id}. {remedy(code)}"


def _write(dag_run: Any, text: str | None) -> None:
    known = dag_run.note
    if known != text and (known is None or known.startswith(OURS)):
        dag_run.note = text


def _first_error(dag_run: Any) -> tuple[str, str] | None:
    from airflow.models.xcom import XComModel
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return None
    of_run = XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id
    kept = session.execute(
        select(XComModel.task_id, XComModel.value)
        .where(*of_run, XComModel.key == ERROR)
        .order_by(XComModel.timestamp)
    )
    return next(((task_id, str(code)) for task_id, code in kept), None)
