"""A pipeline's connections by their use: where the ids of its file meet connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline

Connections = Mapping[str, Connection]
"""By id."""

ConnectionOf = Callable[[str], Connection]
"""Gives the connection of an id; raises InvalidSettings for one that is nowhere."""


def looked_up(pipeline: Pipeline, connection_of: ConnectionOf) -> Connections:
    """The pipeline's connections; raises as the look-up does."""
    return {conn_id: connection_of(conn_id) for conn_id in sorted(pipeline.connections)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where a pipeline's drivers connect to, and the tasks of Spark."""

    kafka: Connection
    warehouse: Connection
    executors_kafka: Connection | None
    """As whom tasks log in; None: as the drivers."""
    executors_warehouse: Connection | None
    registries: Connections

    @classmethod
    def of(cls, pipeline: Pipeline, connections: Connections) -> Self:
        """Those that the pipeline names.

        Raises:
            KeyError: one is not given.
        """
        tasks = pipeline.executors
        return cls(
            kafka=connections[pipeline.kafka.connection],
            warehouse=connections[pipeline.warehouse],
            executors_kafka=connections[tasks.kafka] if tasks.kafka else None,
            executors_warehouse=connections[tasks.warehouse] if tasks.warehouse else None,
            registries={conn_id: connections[conn_id] for conn_id in pipeline.registries},
        )
