"""A region of a test's own on real Kafka and real Postgres, driven as Airflow would drive it."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import psycopg2
from tests.support.executor import Hook, LocalExecutor, nothing
from tests.support.produce import numbered, produce

from tidemark.kafka.group import Group
from tidemark.ledger.ledger import Ledger
from tidemark.member.drain import Drained
from tidemark.member.job import JobExecutor
from tidemark.model.bounds import Bounds
from tidemark.model.offsets import Offsets, TopicPartition
from tidemark.operations.reset import ResetReport, reset_region
from tidemark.operations.run import (
    Connections,
    Opened,
    close_run,
    drain_run,
    open_run,
)
from tidemark.postgres.transaction import connect
from tidemark.protocol.close import Closed
from tidemark.protocol.reset import Destination
from tidemark.settings.connections import Connection, kafka_config
from tidemark.settings.pipeline import Pipeline


def kafka_connection(bootstrap: str, **extra: str) -> Connection:
    """A Kafka connection in Airflow's shape."""
    return Connection("tidemark_kafka", "kafka", extra={"bootstrap.servers": bootstrap, **extra})


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


@dataclass
class World:
    """One region with its topic, group, target and the tasks of its runs."""

    kafka: str
    warehouse: dict[str, Any]
    topic: str
    region: str
    settings: dict[str, Any] = field(default_factory=dict)
    executors: list[LocalExecutor] = field(default_factory=list)
    before: Hook = nothing
    after: Hook = nothing
    overrides: tuple[str, ...] = ()

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as its file would say it; `settings` are merged in by section."""
        base: dict[str, Any] = {
            "region": self.region,
            "kafka": {"connection": "tidemark_kafka", "topics": [self.topic]},
            "decode": {"format": "raw"},
            "target": {"connection": "tidemark_warehouse", "table": "public.records"},
            "no_progress_seconds": 15,
        }
        for key, value in self.settings.items():
            base[key] = base.get(key, {}) | value if isinstance(value, dict) else value
        return Pipeline.model_validate(base)

    @property
    def connections(self) -> dict[str, Connection]:
        """What Airflow would resolve."""
        return {
            "tidemark_kafka": kafka_connection(self.kafka),
            "tidemark_warehouse": postgres_connection(self.warehouse),
        }

    @property
    def group(self) -> Group:
        """The region's consumer group."""
        return Group(kafka_config(self.connections["tidemark_kafka"]), self.pipeline.group)

    def produce(self, count: int, partition: int = 0, start: int = 0) -> None:
        """Numbered records are in the topic."""
        produce(self.kafka, self.topic, numbered(count, start), partition)

    def open(
        self,
        run_id: str = "run",
        *,
        max_records: int = 1000,
        max_batches: int | None = None,
        max_seconds: int | None = None,
    ) -> Opened:
        """The open task."""
        bounds = Bounds(max_records, max_batches, max_seconds)
        return open_run(
            self.pipeline, self.connections, run_id=run_id, bounds=bounds, overrides=self.overrides
        )

    def drain(self, run_id: str = "run", slot: int = 1) -> Drained:
        """The drain task of one member."""
        return drain_run(
            self.pipeline,
            self.connections,
            run_id=run_id,
            member_name=f"m{slot}",
            executor_of=self.executor_of,
            slot=slot,
        )

    def member(self, slot: int = 1, run_id: str = "run") -> "Future[Drained]":
        """A member at work in a thread of its own."""
        done: Future[Drained] = Future()

        def work() -> None:
            try:
                done.set_result(self.drain(run_id, slot))
            except BaseException as error:
                done.set_exception(error)

        Thread(target=work, name=f"member {slot}", daemon=True).start()
        return done

    def close(self, run_id: str = "run") -> Closed:
        """The close task."""
        return close_run(self.pipeline, self.connections, run_id=run_id)

    def reset(
        self,
        run_id: str | None = None,
        *,
        apply: bool = True,
        to: Destination = None,
        overrides: tuple[str, ...] = (),
    ) -> ResetReport:
        """The reset task, or a reset or rewind by hand."""
        return reset_region(
            self.pipeline,
            self.connections,
            run_id=run_id,
            apply=apply,
            who="test",
            why="a test",
            to=to,
            overrides=overrides,
        )

    def run(self, run_id: str = "run", **bounds: Any) -> Closed:
        """All tasks of a run that ends well."""
        self.open(run_id, **bounds)
        self.drain(run_id)
        return self.close(run_id)

    def executor_of(self, pipeline: Pipeline, connections: Connections, member: int) -> JobExecutor:
        """An executor with the world's hooks; kept for a test to look at."""
        executor = LocalExecutor(
            pipeline, connections, member, before=self.before, after=self.after
        )
        self.executors.append(executor)
        return executor

    @property
    def jobs(self) -> int:
        """Jobs that executors were asked to run."""
        return sum(len(executor.drained) for executor in self.executors)

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement in the warehouse."""
        return ask(self.warehouse, statement, values)

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of every row of the target, in order."""
        return self.sql("SELECT kafka_partition, kafka_offset FROM public.records ORDER BY 1, 2")

    def dead_letters(self) -> list[tuple[int, int]]:
        """Partition and offset of every dead letter, in order."""
        return self.sql('SELECT partition, "offset" FROM tidemark.dead_letters ORDER BY 1, 2')

    def ledger_offsets(self) -> Offsets:
        """The merged checkpoint."""
        rows = self.sql("SELECT topic, partition, next_offset FROM tidemark.partitions")
        return {TopicPartition(topic, number): offset for topic, number, offset in rows}

    def kafka_offsets(self) -> Offsets:
        """The group's offsets in Kafka."""
        return self.group.committed(self.ledger_offsets())

    def partition(self, number: int = 0) -> TopicPartition:
        """A partition of the world's topic."""
        return TopicPartition(self.topic, number)

    def ledger(self) -> Ledger:
        """The ledger through an engine of its own."""
        return Ledger(connect(self.warehouse))


def ask(
    parameters: dict[str, Any], statement: str, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction of its own; return its rows, if it has any."""
    with closing(psycopg2.connect(**parameters)) as connection:
        return _rows(connection, statement, values)


def dump(parameters: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the ledger and of `public`, and the names in staging."""
    with closing(psycopg2.connect(**parameters)) as connection:
        tables = _rows(
            connection,
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname IN ('tidemark', 'tidemark_staging', 'public') ORDER BY 1",
        )
        found = {
            table: _rows(connection, f"SELECT t::text FROM {table} t ORDER BY 1")
            for (table,) in tables
            if not table.startswith("tidemark_staging.")
        }
        sequences = "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2"
        return found | {"tables": tables, "sequences": _rows(connection, sequences)}


def _rows(connection: Any, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []
