"""Connections as the api-server knows them, from whichever secrets backend Airflow uses."""

from collections.abc import Iterable
from dataclasses import replace

from airflow.sdk import Connection as AirflowConnection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException

from tidemark.errors import TidemarkError
from tidemark.page.errors import ConnectionNotOnServer
from tidemark.page.given import PATIENCE
from tidemark.settings.connections import Connection


def connection(conn_id: str) -> Connection:
    """The connection; one of Postgres gives up soon, as a person waits for it.

    Raises:
        InvalidSettings: Airflow's api-server does not know it, or may not.
    """
    try:
        found = AirflowConnection.get(conn_id)
    except (AirflowException, PermissionError) as error:
        has_teams = conf.getboolean("core", "multi_team", fallback=False)
        raise ConnectionNotOnServer(conn_id=conn_id, has_teams=has_teams) from error
    return _impatient(Connection.from_airflow(found))


def resolved(conn_ids: Iterable[str]) -> dict[str, Connection | TidemarkError]:
    """Each connection, or why there is none."""
    found: dict[str, Connection | TidemarkError] = {}
    for conn_id in conn_ids:
        try:
            found[conn_id] = connection(conn_id)
        except TidemarkError as error:
            found[conn_id] = error
    return found


def _impatient(found: Connection) -> Connection:
    if found.conn_type not in ("postgres", "postgresql"):
        return found
    return replace(found, extra={**found.extra, "connect_timeout": PATIENCE})
