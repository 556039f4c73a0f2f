"""A region of a test's own on real Kafka and real Postgres, by the operations' own functions."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg2

from tidemark.admin.reset import ResetReport, reset_region
from tidemark.admin.run import close_run
from tidemark.kafka import description
from tidemark.kafka.admin import SECONDS
from tidemark.kafka.config import kafka_config
from tidemark.kafka.description import GroupState
from tidemark.kafka.group import Group
from tidemark.ledger.actions import Order
from tidemark.ledger.ledger import Ledger
from tidemark.model.plan import Bounds
from tidemark.postgres.transaction import connect
from tidemark.protocol.close import Closed
from tidemark.protocol.reset import Approved, Destination
from tidemark.runs._drain import Drained
from tidemark.runs.member import ExecutorOf, drain_run
from tidemark.runs.open import Opened, open_run
from tidemark.settings.connections import Connection
from tidemark.settings.pipeline import Pipeline


class WatchedGroup(Group):
    """Described in the test's own process, while its broker runs: tests ask again and again."""

    def describe(self) -> GroupState:
        return description._state(description._ask(self._config, self.group_id, SECONDS))


@dataclass
class DrivenRegion:
    """One region by the names of its parts: what Airflow's tasks do to it, a test does."""

    kafka: str
    warehouse: dict[str, Any]
    topic: str
    region: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Merged by section into what `file` says of every region."""
    registry: Connection | None = None
    """A schema registry's connection, if there is one."""
    clock: Callable[[], float] = time.monotonic
    """By which its members wait for others."""

    @property
    def file(self) -> dict[str, Any]:
        """The pipeline as its file would say it."""
        found: dict[str, Any] = {
            "region": self.region,
            "kafka": {"connection": "tidemark_kafka", "topics": [self.topic]},
            "decode": {"format": "json", "schema": {"value": "string"}},
            "target": {"connection": "tidemark_warehouse", "table": "public.records"},
            "no_progress_seconds": 15,
        }
        for key, value in self.settings.items():
            found[key] = found.get(key, {}) | value if isinstance(value, dict) else value
        if "targets" in found:
            del found["target"]
        return found

    @property
    def pipeline(self) -> Pipeline:
        """The same, read."""
        return Pipeline.model_validate(self.file)

    @property
    def connections(self) -> dict[str, Connection]:
        """What Airflow would resolve."""
        return {
            "tidemark_kafka": kafka_connection(self.kafka),
            "tidemark_warehouse": postgres_connection(self.warehouse),
            **({"tidemark_registry": self.registry} if self.registry else {}),
        }

    @property
    def group(self) -> Group:
        """The region's consumer group, as a test looks at it."""
        return WatchedGroup(kafka_config(self.connections["tidemark_kafka"]), self.pipeline.group)

    def ledger(self) -> Ledger:
        """The ledger through an engine of its own."""
        return Ledger(connect(self.warehouse))

    def begin(self, run_id: str, bounds: Bounds, overrides: Sequence[str] = ()) -> Opened:
        """The open task."""
        return open_run(
            self.pipeline, self.connections, run_id=run_id, bounds=bounds, overrides=overrides
        )

    def join(
        self,
        run_id: str,
        name: str,
        executor_of: ExecutorOf,
        slot: int = 1,
    ) -> Drained:
        """The drain task of one member."""
        return drain_run(
            self.pipeline,
            self.connections,
            run_id=run_id,
            member_name=name,
            executor_of=executor_of,
            slot=slot,
            clock=self.clock,
        )

    def close(self, run_id: str = "run") -> Closed:
        """The close task."""
        return close_run(self.pipeline, self.connections, run_id=run_id)

    def reset(
        self,
        run_id: str | None = None,
        *,
        apply: bool = True,
        to: Destination = None,
        overrides: Sequence[str] = (),
        request_id: str | None = None,
        approved: Approved | None = None,
    ) -> ResetReport:
        """The reset task, or a reset or rewind by hand."""
        return reset_region(
            self.pipeline,
            self.connections,
            Order("test", "a test") if apply else None,
            run_id=run_id,
            to=to,
            overrides=overrides,
            request_id=request_id,
            approved=approved,
        )

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement in the warehouse."""
        return ask(self.warehouse, statement, values)


ONE_BROKER = {"enable.sparse.connections": "false"}
"""A new client knows its broker twice, as a bootstrap server and by its node.

It would wait 50 ms before it connects to the second one, and a transactional producer often half a
second before it asks for its coordinator.
"""


def kafka_connection(bootstrap: str, **extra: str) -> Connection:
    """A Kafka connection in Airflow's shape."""
    given = {"bootstrap.servers": bootstrap} | ({} if "," in bootstrap else ONE_BROKER)
    return Connection("tidemark_kafka", "kafka", extra=given | extra)


def postgres_connection(parameters: dict[str, Any]) -> Connection:
    """A Postgres connection in Airflow's shape."""
    p = parameters
    return Connection(
        "tidemark_warehouse",
        "postgres",
        p["host"],
        p["port"],
        p["user"],
        p["password"],
        p["dbname"],
        {"connect_timeout": 5},
    )


def ask(
    parameters: dict[str, Any], statement: str, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own; return its rows, if it has any."""
    with closing(psycopg2.connect(**parameters)) as connection:
        return rows_of(connection, statement, values)


def rows_of(connection: Any, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The same on an open connection."""
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []
