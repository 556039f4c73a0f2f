"""What broke: the error that the first red task of a run ended with, from its log.

And what the newest run of a reset or replay DAG told: a dry run is as green as one that applied.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.log.log_reader import TaskLogReader
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.page.seen import AirflowRun, SeenRegion
from tidemark.page.verdict import error_in
from tidemark.settings.described import Role
from tidemark.views.verdict import remedy


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed task, and what its log says; without a code the log names no error of ours."""

    task_id: str
    map_index: int
    code: str | None
    text: str

    @property
    def name(self) -> str:
        """The task as Airflow shows it."""
        return self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"

    @property
    def remedy(self) -> str:
        """What to do."""
        return remedy(self.code)


def may_read_logs(dag_id: str, user: Any) -> bool:
    """Whether the user may read the logs of the DAG, which is more than to read the DAG."""
    return _may("GET", DagAccessEntity.TASK_LOGS, dag_id, user)


def may_try_reset(dag_id: str, user: Any) -> bool:
    """Whether the user may start the DAG, as Airflow asks when it is triggered."""
    return _may("POST", DagAccessEntity.RUN, dag_id, user)


def _may(method: Literal["GET", "POST"], entity: DagAccessEntity, dag_id: str, user: Any) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=details, user=user
        )
    )


def failure(run: AirflowRun, session: Session) -> Failure | None:
    """Why the run failed; None while no task of it did."""
    failed = session.scalars(
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.state == "failed",
        )
        .order_by(TaskInstance.end_date, TaskInstance.map_index)
    ).first()
    if failed is None:
        return None
    code, text = error_in(_lines(failed)) or (None, "Its log names no error of Tidemark.")
    return Failure(failed.task_id, failed.map_index, code, text)


def _lines(task: TaskInstance) -> Iterator[str]:
    for line in TaskLogReader().read_log_stream(task, task.try_number, {}):
        event = json.loads(line)
        yield str(event.get("event", ""))
        for detail in event.get("error_detail") or ():
            yield str(detail.get("exc_value", ""))


CHARS = 1500
"""Of a sentence that a task wrote; no more of its result leaves the database."""


def newest_by_hand(seen: SeenRegion, session: Session) -> dict[str, tuple[str, str]]:
    """What the newest reset and the newest replay by hand have told; see `_newest`."""
    found = {role: _newest(seen, role, session) for role in (Role.reset, Role.replay)}
    return {str(role): told for role, told in found.items() if told}


def _newest(seen: SeenRegion, role: Role, session: Session) -> tuple[str, str] | None:
    """The run and its sentence; None where the user may not read that DAG, or it told nothing."""
    region, summary = (XComModel.value[name].as_string() for name in ("region", "summary"))
    newest = session.execute(
        select(XComModel.run_id, region == seen.name, func.substr(summary, 1, CHARS))
        .where(XComModel.dag_id.in_(seen.dags.get(role, ())), XComModel.key == "return_value")
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    ).first()
    run_id, is_ours, sentence = newest or ("", False, None)
    return (run_id, sentence or "") if is_ours else None
