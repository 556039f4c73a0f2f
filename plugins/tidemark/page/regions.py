"""The regions that a user may see: those of the DAGs that they may read, as Airflow keeps them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.page.carried import carried
from tidemark.page.import_errors import Unread, unread_files, unread_of
from tidemark.page.kept_errors import first_errors
from tidemark.page.seen import AirflowRun, SeenRegion
from tidemark.settings.described import Described, Role


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a DAG runs."""

    is_paused: bool
    next_at: datetime | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Kept:
    """What Airflow keeps of all DAGs with a region, whoever may read them."""

    carried: dict[str, tuple[Described, ...]]
    """By DAG: one that Airflow reads, or has put aside since it can't read its file any more."""
    schedules: dict[str, Schedule]
    runs: dict[str, AirflowRun]
    """The newest of each."""
    unread: tuple[Unread, ...]
    teams: dict[str, str | None]


def kept(session: Session) -> Kept:
    """Read from Airflow's database: some short statements, of which one looks at all DAGs."""
    ours, unread = carried(session), unread_of(session)
    live = set(session.scalars(select(DagModel.dag_id).where(~DagModel.is_stale)))
    live |= {one.dag_id for one in unread}
    ours = {dag_id: described for dag_id, described in ours.items() if dag_id in live}
    known = sorted({*ours, *(one.dag_id for one in unread)})
    teams = DagModel.get_dag_id_to_team_name_mapping(known, session=session)
    running = [one for one, all_of in ours.items() if any(d.role is Role.run for d in all_of)]
    return Kept(ours, _schedules(running, session), _runs(running, session), unread, teams)


def seen_regions(user: Any, known: Kept) -> list[SeenRegion]:
    """All regions of the DAGs that the user may read, by name."""
    readable = _readable(user, known)
    unread = unread_files(known.unread, readable, user)
    found: dict[tuple[str, str], SeenRegion] = {}
    for dag_id, described in _each(known, readable):
        key = described.pipeline.warehouse, described.pipeline.region
        seen = found.setdefault(key, SeenRegion(described))
        seen.dags.setdefault(described.role, dag_id)
        seen.unread = seen.unread or unread.get(dag_id)
        if described.role is Role.run:
            seen.described = described
    for seen in found.values():
        _add_airflows_view(seen, known)
    return [found[key] for key in sorted(found, key=lambda key: key[1])]


def _each(known: Kept, readable: set[str]) -> Iterable[tuple[str, Described]]:
    for dag_id, all_of in known.carried.items():
        if dag_id in readable:
            yield from ((dag_id, described) for described in all_of)


def _readable(user: Any, known: Kept) -> set[str]:
    """Of these DAGs alone, those that the user may read; asked by team, as Airflow does."""
    teams: dict[str | None, set[str]] = {}
    for dag_id in {*known.carried, *(one.dag_id for one in known.unread)}:
        teams.setdefault(known.teams.get(dag_id), set()).add(dag_id)
    manager, found = get_auth_manager(), set[str]()
    for team, dag_ids in teams.items():
        found |= manager.filter_authorized_dag_ids(
            dag_ids=dag_ids, user=user, method="GET", team_name=team
        )
    return found


def _add_airflows_view(seen: SeenRegion, known: Kept) -> None:
    dag_id = seen.dags.get(Role.run, "")
    if schedule := known.schedules.get(dag_id):
        seen.is_paused, seen.next_run_at = schedule.is_paused, schedule.next_at
        seen.schedule = schedule.text
    seen.last_run = known.runs.get(dag_id)


def _schedules(dag_ids: list[str], session: Session) -> dict[str, Schedule]:
    columns = (
        DagModel.dag_id,
        DagModel.is_paused,
        DagModel.next_dagrun_create_after,
        DagModel.timetable_summary,
    )
    rows = session.execute(select(*columns).where(DagModel.dag_id.in_(dag_ids)))
    return {
        dag_id: Schedule(paused, next_at, None if text == "None" else text)  # as Airflow writes it
        for dag_id, paused, next_at, text in rows
    }


def _runs(dag_ids: list[str], session: Session) -> dict[str, AirflowRun]:
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(dag_ids)).group_by(DagRun.dag_id)
    columns = (
        DagRun.id,
        DagRun.dag_id,
        DagRun.run_id,
        DagRun.state,
        DagRun.start_date,
        DagRun.end_date,
    )
    found = {
        number: AirflowRun(dag_id, run_id, str(state), started, ended)
        for number, dag_id, run_id, state, started, ended in session.execute(
            select(*columns).where(DagRun.id.in_(newest))
        )
    }
    failed = [number for number, run in found.items() if run.state == "failed"]
    errors = first_errors(failed, session)
    return {run.dag_id: replace(run, error=errors.get(number)) for number, run in found.items()}
