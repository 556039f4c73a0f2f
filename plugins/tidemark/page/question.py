"""A question about regions as it goes to a helper process, and its answer: JSON, a line each.

Connections are handed over with it: each, or why there is none.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Self

from tidemark.errors import TidemarkError, error_as_dict, error_from_dict
from tidemark.page.seen import AirflowRun, SeenRegion, UnreadFile
from tidemark.settings.connections import Connection
from tidemark.settings.described import Described, Role
from tidemark.settings.endpoints import Connections, looked_up
from tidemark.settings.pipeline import Pipeline

PATIENCE = 3
"""Seconds that a page waits for a server that does not answer."""

Given = Mapping[str, Connection | TidemarkError]


def connection(given: Given, conn_id: str) -> Connection:
    """The connection.

    Raises:
        InvalidSettings: Airflow's api-server does not know it, or may not.
    """
    found = given[conn_id]
    if isinstance(found, TidemarkError):
        raise found
    return found


def connections_of(given: Given, pipeline: Pipeline) -> Connections:
    """All that a look at the region needs; raises as `connection` does."""
    return looked_up(pipeline, partial(connection, given))


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which regions; all that its answer depends on but the connections."""

    name: str
    regions: tuple[SeenRegion, ...]
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The same for all who ask the same and may see the same."""
        found = {"name": self.name, "regions": list(map(_plain, self.regions)), "args": self.args}
        return json.dumps(found, sort_keys=True)

    @property
    def connections(self) -> set[str]:
        """The ids of those that its answer may need."""
        return {conn_id for seen in self.regions for conn_id in seen.pipeline.connections}

    @classmethod
    def parse(cls, text: str) -> Self:
        """The question that has this text."""
        found = json.loads(text)
        return cls(found["name"], tuple(map(_seen, found["regions"])), found["args"])


@dataclass(frozen=True, slots=True)
class Answer:
    """A page, or a part of one."""

    body: str
    media_type: str = "text/html"


def asked(question: str, given: Given) -> bytes:
    """The line that goes to a helper; it holds secrets."""
    kept = {
        conn_id: {"error": error_as_dict(one)}
        if isinstance(one, TidemarkError)
        else {"is": asdict(one)}
        for conn_id, one in given.items()
    }
    return json.dumps({"question": question, "connections": kept}).encode() + b"\n"


def heard(line: bytes) -> tuple[Question, Given]:
    """Read the question and its connections from a line that `asked` wrote."""
    found = json.loads(line)
    given = {
        conn_id: error_from_dict(one["error"]) if "error" in one else Connection(**one["is"])
        for conn_id, one in found["connections"].items()
    }
    return Question.parse(found["question"]), given


def answered(found: Answer | TidemarkError) -> bytes:
    """The line that comes back."""
    plain = {"error": error_as_dict(found)} if isinstance(found, TidemarkError) else asdict(found)
    return json.dumps(plain).encode() + b"\n"


def answer_in(line: bytes) -> Answer:
    """The answer.

    Raises:
        TidemarkError: the helper met it.
    """
    found = json.loads(line)
    if "error" in found:
        raise error_from_dict(found["error"])
    return Answer(**found)


def _plain(seen: SeenRegion) -> dict[str, Any]:
    run = seen.last_run and asdict(seen.last_run)
    if run:
        run |= {name: _iso(run[name]) for name in ("started_at", "ended_at")}
    return {
        "carried": seen.described.to_json(),
        "dags": {str(role): dag_ids for role, dag_ids in seen.dags.items()},
        "is_paused": seen.is_paused,
        "next_run_at": _iso(seen.next_run_at),
        "schedule": seen.schedule,
        "last_run": run,
        "unread": seen.unread and asdict(seen.unread),
    }


def _seen(plain: dict[str, Any]) -> SeenRegion:
    described = Described.from_json(plain["carried"])
    run, unread = plain["last_run"], plain["unread"]
    if described is None:
        raise ValueError("no region")
    if run:
        run |= {name: _moment(run[name]) for name in ("started_at", "ended_at")}
        run["error"] = run["error"] and tuple(run["error"])
    return SeenRegion(
        described=described,
        dags={Role(role): tuple(dag_ids) for role, dag_ids in plain["dags"].items()},
        is_paused=plain["is_paused"],
        next_run_at=_moment(plain["next_run_at"]),
        schedule=plain["schedule"],
        last_run=AirflowRun(**run) if run else None,
        unread=UnreadFile(**unread) if unread else None,
    )


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
