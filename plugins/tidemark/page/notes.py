"""The note of a failed run: what ended it, and what to do, where Airflow shows the run.

A task keeps its error's code as XCom, and Airflow's scheduler, which loads this as a listener,
writes the note: tasks can't. A code alone, for whoever may read the DAG may read its notes, but not
its logs.
"""

from typing import Any

from airflow.listeners import hookimpl

from tidemark.page.log_error import remedy

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
    from sqlalchemy.orm import object_session

    from tidemark.page.kept_errors import first_errors

    session = object_session(dag_run)
    return first_errors([dag_run.id], session).get(dag_run.id) if session else None
