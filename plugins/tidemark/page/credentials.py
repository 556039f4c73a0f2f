"""Connections as the api-server knows them, from whichever secrets backend Airflow uses."""

from dataclasses import replace

from airflow.sdk import Connection as AirflowConnection
from airflow.sdk.exceptions import AirflowException

from tidemark.page.errors import ConnectionNotOnServer
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline

PATIENCE = 3
"""Seconds that a page waits for a server that does not answer."""


def connection(conn_id: str) -> Connection:
    """The connection; one of Postgres gives up soon, as a person waits for it.

    Raises:
        InvalidSettings: Airflow's api-server does not know it, or may not.
    """
    try:
        found = AirflowConnection.get(conn_id)
    except (AirflowException, PermissionError) as error:
        raise ConnectionNotOnServer(conn_id=conn_id) from error
    return _impatient(Connection.from_airflow(found))


def connections_of(pipeline: Pipeline) -> dict[str, Connection]:
    """All that a look at the region needs; raises as `connection` does."""
    return {conn_id: connection(conn_id) for conn_id in pipeline.connections}


def _impatient(found: Connection) -> Connection:
    if found.conn_type not in ("postgres", "postgresql"):
        return found
    return replace(found, extra={**found.extra, "connect_timeout": PATIENCE})
