"""Where an example takes place."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2

from tidemark_local.stack import LocalStack


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses that its records and its proof need."""

    kafka: str
    """Bootstrap servers."""
    warehouse: dict[str, Any]
    """Of the database, as psycopg2 takes them."""
    registry: str
    """The schema registry's URL."""

    @classmethod
    def of(cls, stack: LocalStack) -> "Place":
        """On this machine."""
        warehouse = stack.postgres.parameters("warehouse")
        return cls(stack.kafka.bootstrap, warehouse, stack.registry.url)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the warehouse answers."""
        with closing(psycopg2.connect(**self.warehouse)) as connection, connection:
            cursor = connection.cursor()
            cursor.execute(query)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows
