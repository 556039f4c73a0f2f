"""DAG files that Airflow can't read, by its own database: no file is opened here."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.models.dag import DagModel
from airflow.models.errors import ParseImportError
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.page.seen import UnreadFile

_CHARS = 1500
_READ = 50_000
"""Of a stack trace, from its end."""
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+:)")


@dataclass(frozen=True, slots=True)
class Unread:
    """A DAG whose file has an import error."""

    dag_id: str
    file: str
    error: str


def unread_of(session: Session) -> tuple[Unread, ...]:
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
        Unread(dag_id, file, last_words((trace or "")[-_READ:])) for dag_id, file, trace in rows
    )


def unread_files(unread: Iterable[Unread], readable: set[str], user: Any) -> dict[str, UnreadFile]:
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


def last_words(stacktrace: str) -> str:
    """The error at the end of a stack trace, without its frames and its module."""
    lines = stacktrace.strip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    rest = lines[frames[-1] + 1 :] if frames else lines
    told = "\n".join(dropwhile(lambda line: line.startswith(" "), rest))
    return _MODULE.sub("", told)[:_CHARS]
