"""What differs between the supported versions of Airflow. Nothing else asks for a version."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow
from airflow.sdk.api.datamodels._generated import DagRunType

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

VERSION = tuple(int(number) for number in airflow.__version__.split(".")[:2])

if VERSION >= (3, 2):
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowRescheduleException,
        AirflowSkipException,
        TaskDeferred,
    )
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowRescheduleException,
        AirflowSkipException,
        TaskDeferred,
    )
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.trigger import CronTriggerTimetable

__all__ = [
    "BACKOFF",
    "NOT_RESUMED",
    "NO_BACKFILL",
    "AirflowException",
    "AirflowFailException",
    "AirflowRescheduleException",
    "AirflowSkipException",
    "AssetOrTimeSchedule",
    "CronTriggerTimetable",
    "TaskDeferred",
    "conf",
]

BACKOFF = 2.0 if VERSION >= (3, 2) else True
"""Each retry waits twice as long as the one before; 3.1 knows no other factor, and no number."""

NOT_RESUMED: dict[str, Any] = {"durable": False} if VERSION >= (3, 3) else {}
"""A retry of a Spark task starts a driver of its own; before 3.3 there is no other way."""

NO_BACKFILL: dict[str, Any] = {}
"""A DAG's arguments by which Airflow starts no backfill of it: its runs start at once, and a run
reads what Kafka holds, not an interval. In 3.1 it has none: there the open refuses alone."""

if VERSION >= (3, 2):
    NO_BACKFILL["allowed_run_types"] = tuple(
        one.value for one in DagRunType if one is not DagRunType.BACKFILL
    )


def add_partitions(event: Any, keys: Sequence[str]) -> bool:
    """An asset's event becomes one for each key; False before 3.3, where a task can't do that."""
    if VERSION < (3, 3):
        return False
    event.add_partitions(list(keys))
    return True


def dag_bag(folder: str | Path) -> Any:
    """The DAGs of a folder or a file, as the dag processor reads them."""
    if VERSION >= (3, 2):
        from airflow.dag_processing.dagbag import DagBag
    else:
        from airflow.models.dagbag import DagBag
    return DagBag(dag_folder=folder, safe_mode=False)


def serialized_again(dag: Any) -> Any:
    """The DAG as the scheduler reads it, from what the dag processor writes down."""
    if VERSION >= (3, 2):
        from airflow.serialization.serialized_objects import DagSerialization as Written
    else:
        from airflow.serialization.serialized_objects import SerializedDAG as Written
    return Written.from_dict(Written.to_dict(dag))


def teams_of(dag_ids: Iterable[str], session: "Session") -> dict[str, str | None]:
    """The teams of those that have one; in 3.1 Airflow asks for no team where it lists DAGs."""
    if VERSION < (3, 2):
        return {}
    from airflow.models.dag import DagModel

    found: dict[str, str | None] = DagModel.get_dag_id_to_team_name_mapping(
        list(dag_ids), session=session
    )
    return found


def of_team(team: str | None) -> dict[str, str | None]:
    """The argument that names the team, where Airflow's question has one."""
    return {"team_name": team} if VERSION >= (3, 2) else {}
