"""Connections as they are handed to a helper: each, or why there is none."""

from collections.abc import Mapping

from tidemark.errors import TidemarkError
from tidemark.settings.connections import Connection
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


def connections_of(given: Given, pipeline: Pipeline) -> dict[str, Connection]:
    """All that a look at the region needs; raises as `connection` does."""
    return {conn_id: connection(given, conn_id) for conn_id in pipeline.connections}
