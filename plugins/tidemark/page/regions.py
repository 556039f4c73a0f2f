"""The regions that a user may see: those of the DAGs that they may read, as Airflow keeps them."""

import logging
from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.errors import InvalidSettings
from tidemark.page.import_errors import unread_files
from tidemark.page.kept_errors import first_errors
from tidemark.page.seen import AirflowRun, SeenRegion
from tidemark.settings.described import Described, Role

log = logging.getLogger(__name__)


_KNOWN: dict[str, tuple[str, tuple[Described, ...]]] = {}
"""By DAG: the version that was read last, and what it carries."""
_NONE: tuple[str, tuple[Described, ...]] = ("", ())


def seen_regions(user: Any, session: Session) -> list[SeenRegion]:
    """All regions of the DAGs that the user may read, by name.

    Those too that Airflow has put aside since it can't read their file any more.
    """
    permitted = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    live = select(DagModel.dag_id).where(~DagModel.is_stale)
    unread = unread_files(permitted, user, session)
    dag_ids = permitted & set(session.scalars(live)) | unread.keys()
    found: dict[tuple[str, str], SeenRegion] = {}
    for dag_id, described in _carried(dag_ids, session):
        key = described.pipeline.warehouse, described.pipeline.region
        seen = found.setdefault(key, SeenRegion(described))
        seen.dags.setdefault(described.role, dag_id)
        seen.unread = seen.unread or unread.get(dag_id)
        if described.role is Role.run:
            seen.described = described
    _add_airflows_view(list(found.values()), session)
    return [found[key] for key in sorted(found, key=lambda key: key[1])]


def _carried(dag_ids: set[str], session: Session) -> Iterable[tuple[str, Described]]:
    """What the DAGs carry; a DAG is read once a version."""
    newest = (
        select(DagVersion.dag_id, func.max(DagVersion.version_number).label("number"))
        .join(SerializedDagModel, SerializedDagModel.dag_version_id == DagVersion.id)
        .where(DagVersion.dag_id.in_(dag_ids))
        .group_by(DagVersion.dag_id)
        .subquery()
    )
    kept = (
        select(SerializedDagModel.dag_id, SerializedDagModel.dag_hash)
        .join(DagVersion, SerializedDagModel.dag_version_id == DagVersion.id)
        .join(newest, (DagVersion.dag_id == newest.c.dag_id))
        .where(DagVersion.version_number == newest.c.number)
    )
    hashes: dict[str, str] = {row.dag_id: row.dag_hash for row in session.execute(kept)}
    unread = [one for one, dag_hash in hashes.items() if _KNOWN.get(one, _NONE)[0] != dag_hash]
    for row in SerializedDagModel.get_latest_serialized_dags(dag_ids=unread, session=session):
        _KNOWN[row.dag_id] = (hashes[row.dag_id], tuple(described_in(row.data or {})))
    for dag_id in sorted(hashes):
        for described in _KNOWN.get(dag_id, _NONE)[1]:
            yield dag_id, described


def described_in(serialized: dict[str, Any]) -> Iterable[Described]:
    """The pipelines that the tasks of a serialized DAG carry."""
    for task in serialized.get("dag", {}).get("tasks", ()):
        carried = task.get("__var", task).get("doc_json")
        try:
            if isinstance(carried, str) and (described := Described.from_json(carried)):
                yield described
        except InvalidSettings as error:
            log.warning("DAG %s: %s", serialized["dag"].get("dag_id"), error)


def _add_airflows_view(regions: list[SeenRegion], session: Session) -> None:
    """Schedules and newest runs."""
    by_dag: dict[str, list[SeenRegion]] = {}
    for seen in regions:
        if dag_id := seen.dags.get(Role.run):
            by_dag.setdefault(dag_id, []).append(seen)
    columns = (
        DagModel.dag_id,
        DagModel.is_paused,
        DagModel.next_dagrun_create_after,
        DagModel.timetable_summary,
    )
    for dag_id, paused, next_at, schedule in session.execute(
        select(*columns).where(DagModel.dag_id.in_(by_dag))
    ):
        for seen in by_dag[dag_id]:
            seen.is_paused, seen.next_run_at = paused, next_at
            seen.schedule = None if schedule == "None" else schedule  # as Airflow writes it
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(by_dag)).group_by(DagRun.dag_id)
    runs = session.scalars(select(DagRun).where(DagRun.id.in_(newest))).all()
    errors = first_errors((run.id for run in runs if run.state == "failed"), session)
    for run in runs:
        for seen in by_dag[run.dag_id]:
            seen.last_run = AirflowRun(
                run.dag_id, run.run_id, str(run.state), run.start_date, run.end_date,
                errors.get(run.id),
            )  # fmt: skip
