"""Connections by their ids, from wherever who checks has them."""

from collections.abc import Callable

from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline

ConnectionOf = Callable[[str], Connection]
"""Raises InvalidSettings for one that is nowhere."""


def connections_of(pipeline: Pipeline, connection_of: ConnectionOf) -> dict[str, Connection]:
    """The pipeline's connections by id; raises as the look-up does."""
    return {conn_id: connection_of(conn_id) for conn_id in sorted(pipeline.connections)}
