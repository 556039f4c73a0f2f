"""The regions that a user may see: those of the DAGs that they may read, as Airflow keeps them.

What DAGs carry of their pipelines is data of their authors, and bounded. A DAG is read once a
version, and only if it holds our mark: the database looks for that, so nothing of other DAGs is
loaded. Files that Airflow can't read are named by its own database: no file is opened here.

The error that ended a run is the code that its tasks have kept, which names no data. Any task of
any DAG may write what it likes under that key: only our codes are taken, and what else is there
never leaves the database, however large.
"""

import json
import logging
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import dropwhile
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.dagrun import DagRun
from airflow.models.errors import ParseImportError
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.xcom import XComModel
from sqlalchemy import String, cast, func, or_, select
from sqlalchemy.orm import Session

from tidemark.airflow.compat import of_team, teams_of
from tidemark.errors import InvalidSettings, by_code
from tidemark.page.seen import AirflowRun, SeenRegion, UnreadFile
from tidemark.settings.described import ERROR, MARK, Described, Role

log = logging.getLogger(__name__)

MOST_CHARS = 4 * 2**20
"""Of a serialized DAG; a longer one is not read."""

_AT_ONCE = 500
_ESCAPED = json.dumps(MARK)[:-1]
"""The mark as it stands in a serialized DAG, where the text that a task carries begins."""

_KNOWN: dict[str, tuple[str, tuple[Described, ...]]] = {}
"""By DAG: the version that was read last, and what it carries."""
_NONE: tuple[str, tuple[Described, ...]] = ("", ())


def carried(session: Session) -> dict[str, tuple[Described, ...]]:
    """By DAG, what each carries; a DAG that carries nothing is not there."""
    hashes = _hashes(session)
    unread = [one for one, known in hashes.items() if _KNOWN.get(one, _NONE)[0] != known]
    for some in (unread[at : at + _AT_ONCE] for at in range(0, len(unread), _AT_ONCE)):
        texts = _texts(some, session)
        found = {dag_id: tuple(_described_in(dag_id, text)) for dag_id, text in texts}
        _KNOWN.update({dag_id: (hashes[dag_id], found.get(dag_id, ())) for dag_id in some})
    for gone in _KNOWN.keys() - hashes.keys():
        del _KNOWN[gone]
    return {dag_id: _KNOWN[dag_id][1] for dag_id in sorted(hashes) if _KNOWN[dag_id][1]}


def _newest(*columns: Any) -> Any:
    """These columns of each DAG's newest serialized version."""
    newest = (
        select(DagVersion.dag_id, func.max(DagVersion.version_number).label("number"))
        .join(SerializedDagModel, SerializedDagModel.dag_version_id == DagVersion.id)
        .group_by(DagVersion.dag_id)
        .subquery()
    )
    return (
        select(*columns)
        .join(DagVersion, SerializedDagModel.dag_version_id == DagVersion.id)
        .join(newest, (DagVersion.dag_id == newest.c.dag_id))
        .where(DagVersion.version_number == newest.c.number)
    )


def _hashes(session: Session) -> dict[str, str]:
    rows = session.execute(_newest(SerializedDagModel.dag_id, SerializedDagModel.dag_hash))
    return {row.dag_id: row.dag_hash for row in rows}


def _texts(dag_ids: Iterable[str], session: Session) -> Iterator[tuple[str, str]]:
    """The serialized DAGs that may carry something, one by one; what is too long is left out."""
    table = SerializedDagModel.__table__.c
    text, packed = cast(table.data, String), table.data_compressed
    rows = _newest(table.dag_id, table.id).where(
        table.dag_id.in_(list(dag_ids)),
        or_(
            text.contains(_ESCAPED, autoescape=True) & (func.length(text) <= MOST_CHARS),
            func.length(packed) <= MOST_CHARS,
        ),
    )
    for dag_id, number in session.execute(rows).all():
        row = session.execute(select(text, packed).where(table.id == number)).first()
        for found in (row[0], _unpacked(row[1])) if row else ():
            if found and _ESCAPED in found:
                yield dag_id, found


def _unpacked(packed: bytes | None) -> str:
    """With `compress_serialized_dags`; empty if it unpacks to more than is read."""
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(packed or b"", MOST_CHARS)
    return "" if unpacking.unconsumed_tail else found.decode(errors="replace")


def _described_in(dag_id: str, text: str) -> Iterator[Described]:
    """The pipelines that the tasks of a serialized DAG carry."""
    try:
        tasks = json.loads(text)["dag"]["tasks"]
    except (ValueError, KeyError, RecursionError) as error:
        log.warning("DAG %s can't be read: %s", dag_id, error)
        return
    for task in tasks:
        one = task.get("__var", task).get("doc_json")
        try:
            if isinstance(one, str) and (described := Described.from_json(one)):
                yield described
        except InvalidSettings as error:
            log.warning("DAG %s: %s", dag_id, error)


_CHARS = 1500
_READ = 50_000
"""Of a stack trace, from its end."""
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+:)")


@dataclass(frozen=True, slots=True)
class UnreadDag:
    """A DAG whose file has an import error."""

    dag_id: str
    file: str
    error: str


def unread_of(session: Session) -> tuple[UnreadDag, ...]:
    """All such DAGs."""
    rows = session.execute(
        select(
            DagModel.dag_id,
            ParseImportError.filename,
            ParseImportError.stacktrace,
        ).join(
            ParseImportError,
            (DagModel.relative_fileloc == ParseImportError.filename)
            & (DagModel.bundle_name == ParseImportError.bundle_name),
        )
    )
    return tuple(
        UnreadDag(dag_id, file, error_text((trace or "")[-_READ:])) for dag_id, file, trace in rows
    )


def unread_files(
    unread: Iterable[UnreadDag], readable: set[str], user: Any
) -> dict[str, UnreadFile]:
    """Of the DAGs that the user may read, those whose file has an import error.

    The error is told as Airflow tells it: to who may see import errors, and may read all DAGs of
    the file.
    """
    all_of = tuple(unread)
    may_see = all_of and get_auth_manager().is_authorized_view(
        access_view=AccessView.IMPORT_ERRORS, user=user
    )
    secret = {one.file for one in all_of if not may_see or one.dag_id not in readable}
    return {
        one.dag_id: UnreadFile(one.file, None if one.file in secret else one.error)
        for one in all_of
        if one.dag_id in readable
    }


def error_text(stacktrace: str) -> str:
    """The error at the end of a stack trace, without its frames and its module."""
    lines = stacktrace.strip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    rest = lines[frames[-1] + 1 :] if frames else lines
    told = "\n".join(dropwhile(lambda line: line.startswith(" "), rest))
    return _MODULE.sub("", told)[:_CHARS]


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
    unread: tuple[UnreadDag, ...]
    teams: dict[str, str | None]

    def number_of(self, dag_id: str) -> int:
        """Of the newest run of a DAG; 0 without one."""
        return self.runs[dag_id].number if dag_id in self.runs else 0


def kept(session: Session) -> Kept:
    """Read from Airflow's database: some short statements, of which one looks at all DAGs."""
    ours, unread = carried(session), unread_of(session)
    live = set(session.scalars(select(DagModel.dag_id).where(~DagModel.is_stale)))
    live |= {one.dag_id for one in unread}
    ours = {dag_id: described for dag_id, described in ours.items() if dag_id in live}
    known = sorted({*ours, *(one.dag_id for one in unread)})
    teams = teams_of(known, session)
    running = [one for one, all_of in ours.items() if any(d.role is Role.run for d in all_of)]
    return Kept(
        carried=ours,
        schedules=_schedules(running, session),
        runs=_runs(running, session),
        unread=unread,
        teams=teams,
    )


def seen_regions(user: Any, known: Kept) -> list[SeenRegion]:
    """All regions of the DAGs that the user may read, by name."""
    readable = _readable(user, known)
    unread = unread_files(known.unread, readable, user)
    found: dict[tuple[str, str], SeenRegion] = {}
    for key, all_of in by_region(known).items():
        seen_of = [one for one in all_of if one[0] in readable]
        if seen_of:
            found[key] = _seen(seen_of, all_of, known, unread)
    return [found[key] for key in sorted(found, key=lambda key: key[1])]


Carrier = tuple[str, Described]
"""A DAG, and what it carries."""


def by_region(known: Kept) -> dict[tuple[str, str], list[Carrier]]:
    """The DAGs of each region, by its ledger and name; the DAG that ran last stands first."""
    found: dict[tuple[str, str], list[Carrier]] = {}
    for dag_id in sorted(known.carried, key=lambda one: -known.number_of(one)):
        for described in known.carried[dag_id]:
            key = described.pipeline.warehouse, described.pipeline.region
            found.setdefault(key, []).append((dag_id, described))
    return found


def _seen(
    readable: list[Carrier], all_of: list[Carrier], known: Kept, unread: dict[str, UnreadFile]
) -> SeenRegion:
    """A region by the DAGs that the user may read, and its settings as they stand in the first."""
    first = next((one for _, one in readable if one.role is Role.run), readable[0][1])
    seen = SeenRegion(first, _by_role(readable), _by_role(all_of))
    seen.unread = next((unread[one] for one, _ in readable if one in unread), None)
    running = seen.dags.get(Role.run, ())
    schedules = [known.schedules[one] for one in running if one in known.schedules]
    at_work = [one for one in schedules if not one.is_paused]
    seen.is_paused = bool(schedules) and not at_work
    seen.next_run_at = min((one.next_at for one in at_work if one.next_at), default=None)
    seen.schedule = next((one.text for one in at_work or schedules if one.text), None)
    seen.last_run = next((known.runs[one] for one in running if one in known.runs), None)
    return seen


def _by_role(carriers: list[Carrier]) -> dict[Role, tuple[str, ...]]:
    found: dict[Role, dict[str, None]] = {}
    for dag_id, described in carriers:
        found.setdefault(described.role, {})[dag_id] = None
    return {role: tuple(dag_ids) for role, dag_ids in found.items()}


def _readable(user: Any, known: Kept) -> set[str]:
    """Of these DAGs alone, those that the user may read; asked by team, as Airflow does."""
    teams: dict[str | None, set[str]] = {}
    for dag_id in {*known.carried, *(one.dag_id for one in known.unread)}:
        teams.setdefault(known.teams.get(dag_id), set()).add(dag_id)
    manager, found = get_auth_manager(), set[str]()
    for team, dag_ids in teams.items():
        found |= manager.filter_authorized_dag_ids(
            dag_ids=dag_ids, user=user, method="GET", **of_team(team)
        )
    return found


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
        number: AirflowRun(
            number=number,
            dag_id=dag_id,
            run_id=run_id,
            state=str(state),
            started_at=started,
            ended_at=ended,
        )
        for number, dag_id, run_id, state, started, ended in session.execute(
            select(*columns).where(DagRun.id.in_(newest))
        )
    }
    failed = [number for number, run in found.items() if run.state == "failed"]
    errors = first_errors(failed, session)
    return {run.dag_id: replace(run, error=errors.get(number)) for number, run in found.items()}
