"""Credentials: a pipeline's connections, from whichever secrets backend Airflow uses."""

from airflow.sdk import Connection as AirflowConnection

from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline


def resolve(pipeline: Pipeline) -> dict[str, Connection]:
    """The connections of Kafka and of the target by id. Call it in a running task only."""
    wanted = {pipeline.kafka.connection, pipeline.target.connection}
    return {conn_id: Connection.from_airflow(AirflowConnection.get(conn_id)) for conn_id in wanted}
