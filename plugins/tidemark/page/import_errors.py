"""DAG files that Airflow can't read, by its own database: no file is opened here."""

import re
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
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+:)")


def unread_files(readable: set[str], user: Any, session: Session) -> dict[str, UnreadFile]:
    """Of the DAGs that the user may read, those whose file has an import error.

    The error is told as Airflow tells it: to who may see import errors, and may read all DAGs of
    the file.
    """
    rows = session.execute(
        select(DagModel.dag_id, ParseImportError.filename, ParseImportError.stacktrace).join(
            ParseImportError,
            (DagModel.relative_fileloc == ParseImportError.filename)
            & (DagModel.bundle_name == ParseImportError.bundle_name),
        )
    ).all()
    may_see = rows and get_auth_manager().is_authorized_view(
        access_view=AccessView.IMPORT_ERRORS, user=user
    )
    secret = {file for dag_id, file, _ in rows if not may_see or dag_id not in readable}
    return {
        dag_id: UnreadFile(file, None if file in secret else last_words(stacktrace or ""))
        for dag_id, file, stacktrace in rows
        if dag_id in readable
    }


def last_words(stacktrace: str) -> str:
    """The error at the end of a stack trace, without its frames and its module."""
    lines = stacktrace.strip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    rest = lines[frames[-1] + 1 :] if frames else lines
    told = "\n".join(dropwhile(lambda line: line.startswith(" "), rest))
    return _MODULE.sub("", told)[:_CHARS]
