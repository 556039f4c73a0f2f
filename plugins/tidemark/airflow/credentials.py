"""Credentials: a pipeline's connections, from whichever secrets backend Airflow uses."""

from airflow.sdk import Connection as AirflowConnection

from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline


def resolve(pipeline: Pipeline) -> dict[str, Connection]:
    """The pipeline's connections by id. Call it in a running task only."""
    wanted = pipeline.connections
    return {conn_id: Connection.from_airflow(AirflowConnection.get(conn_id)) for conn_id in wanted}
