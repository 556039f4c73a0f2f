"""What DAGs carry of their pipelines, as Airflow keeps it: data of their authors, and bounded.

A DAG is read once a version, and only if it holds our mark: the database looks for that, so nothing
of other DAGs is loaded.
"""

import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from airflow.models.dag_version import DagVersion
from airflow.models.serialized_dag import SerializedDagModel
from sqlalchemy import String, cast, func, or_, select
from sqlalchemy.orm import Session

from tidemark.errors import InvalidSettings
from tidemark.settings.described import MARK, Described

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
