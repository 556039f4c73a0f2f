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
from tests.support.region import DrivenRegion, rows_of

from tidemark.errors import JobFailed
from tidemark.model.batch import Batch
from tidemark.model.offsets import Offsets, Span, TopicPartition
from tidemark.model.plan import Bounds
from tidemark.protocol.close import Closed
from tidemark.runs._drain import Drained
from tidemark.runs.job import JobExecutor
from tidemark.runs.open import Opened
from tidemark.spark.specs import JobSpec


@dataclass
class World(DrivenRegion):
    """One region with its topic, group, target and the tasks of its runs."""

    executors: list[LocalExecutor] = field(default_factory=list)
    before: Hook = nothing
    after: Hook = nothing
    overrides: tuple[str, ...] = ()

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
        return self.begin(run_id, Bounds(max_records, max_batches, max_seconds), self.overrides)

    def drain(self, run_id: str = "run", slot: int = 1) -> Drained:
        """The drain task of one member."""
        return self.join(run_id, f"m{slot}", self.executor_of, slot)

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

    def run(self, run_id: str = "run", **bounds: Any) -> Closed:
        """All tasks of a run that ends well."""
        self.open(run_id, **bounds)
        self.drain(run_id)
        return self.close(run_id)

    def executor_of(self, spec: JobSpec) -> JobExecutor:
        """An executor with the world's hooks; kept for a test to look at."""
        executor = LocalExecutor(spec, before=self.before, after=self.after)
        self.executors.append(executor)
        return executor

    @property
    def jobs(self) -> int:
        """Jobs that executors were asked to run."""
        return sum(len(executor.drained) for executor in self.executors)

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


TOLD = {"tidemark.refused_opens", "tidemark.doorbells"}


def dump(parameters: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the ledger and of `public`, and the names in staging.

    But for what people and doorbells are told of a region: a refused open leaves a row there.
    """
    with closing(psycopg2.connect(**parameters)) as connection:
        tables = rows_of(
            connection,
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname IN ('tidemark', 'tidemark_staging', 'public') ORDER BY 1",
        )
        found = {
            table: rows_of(connection, f"SELECT t::text FROM {table} t ORDER BY 1")
            for (table,) in tables
            if not table.startswith("tidemark_staging.") and table not in TOLD
        }
        sequences = "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2"
        return found | {"tables": tables, "sequences": rows_of(connection, sequences)}


def everything(counts: Sequence[int]) -> list[tuple[int, int]]:
    """All coordinates of partitions with so many records."""
    return [(partition, n) for partition, count in enumerate(counts) for n in range(count)]


def fail(executor: LocalExecutor, batch: Batch, spans: Sequence[Span]) -> None:
    """A hook: the job fails."""
    raise JobFailed()


def staging(world: World) -> list[tuple[str]]:
    """The staging tables that are there."""
    return world.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'tidemark_staging'")
