"""Credentials: a pipeline's connections, from whichever secrets backend Airflow uses."""

from airflow.sdk import Connection as AirflowConnection

from tidemark.airflow.compat import conf
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline


def resolve(pipeline: Pipeline) -> dict[str, Connection]:
    """The pipeline's connections by id. Call it in a running task only."""
    return {conn_id: resolved(conn_id) for conn_id in pipeline.connections}


def resolved(conn_id: str) -> Connection:
    """One connection, as Airflow knows it now.

    Raises:
        InvalidSettings: it names a token callback that Airflow's configuration does not list.
    """
    return Connection.from_airflow(AirflowConnection.get(conn_id), conf)
