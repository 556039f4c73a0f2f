"""An example of dags/: its records are drained while drivers are killed, and then proven."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from psycopg2.sql import Composable
from rich.panel import Panel
from rich.table import Table
from scripts.demo.airflow_api import AirflowApi
from scripts.demo.steps import WAIT_SECONDS, console, step, wait_for

from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
BATCH_RECORDS = 20_000
HEAD = "SELECT max(head_seq) FROM tidemark.regions WHERE region = %s"
PUBLISHED = """
SELECT count(*), coalesce(sum(rows_moved), 0) FROM tidemark.batches
WHERE region = %s AND state = 'published' AND seq > %s
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example takes place: the addresses that its records and its proof need."""

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

    def rows(self, query: str | Composable, *values: object) -> list[tuple[Any, ...]]:
        """What the warehouse answers; it has committed."""
        with closing(psycopg2.connect(**self.warehouse)) as connection, connection:
            cursor = connection.cursor()
            cursor.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def look(self, query: str, *values: object) -> Any:
        """One value of the ledger; 0 where there is none, or no ledger yet."""
        [(is_there,)] = self.rows("SELECT to_regclass('tidemark.resets') IS NOT NULL")
        found = self.rows(query, *values) if is_there else []
        return (found[0][0] if found else 0) or 0

    def committed(self, topic: str) -> Iterator[Message]:
        """Every record visible at read_committed, each partition's in the order of its offsets."""
        settings = {
            "bootstrap.servers": self.kafka,
            "log_level": 0,
            "group.id": f"{topic}-proof",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
        }
        with closing(Consumer(settings)) as consumer:
            unread = set(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in unread])
            while unread:
                for message in consumer.consume(5000, 1.0):
                    if message.error():
                        unread.discard(message.partition())
                    else:
                        yield message


class Example(ABC):
    """A pipeline of dags/, with the records of its topic."""

    name: str
    """Of its DAG and its region."""
    topic: str
    services: Sequence[str]
    """Of the local stack."""
    waves: Sequence[str]
    """What each of its waves is."""
    shows: tuple[str, str, Sequence[str]]
    """A few rows for a reader: the title, the query and its columns."""

    @abstractmethod
    def produce(self, place: Place, wave: int) -> int:
        """The records of this wave are in the topic; how many they are."""

    @abstractmethod
    def differences(self, place: Place) -> Mapping[str, int]:
        """The topic read once more, without Tidemark, against the tables: all are 0."""

    def shown(self, place: Place) -> Table:
        """A few rows, for a reader."""
        title, query, columns = self.shows
        table = Table(*columns, title=title)
        for row in place.rows(query):
            table.add_row(*map(str, row))
        return table

    def drained(self, api: AirflowApi, place: Place, wave: int) -> Iterator[tuple[str, str]]:
        """The wave is in the tables; what happened, for the summary.

        The first run's drivers are killed after its first batch, and Airflow tries again.
        """
        run, at = f"demo-{time.time_ns()}", place.look(HEAD, self.name)
        api.trigger(self.name, run, max_records=BATCH_RECORDS)
        if wave == 0:
            with step("a run drains; kill its drivers after the first batch: they are tried again"):
                wait_for(lambda: place.look(HEAD, self.name) > at, "the first batch")
                killed = ", ".join(map(str, kill_drivers()))
                console.print(f"  killed {killed or 'nobody'}")
                yield "killed", f"drivers {killed}, SIGKILL after the first batch"
        with step(f"run {run} goes to the end of the topic"):
            ended(api, self.name, run)


def tell(stack: LocalStack, example: Example) -> bool:
    """Whether the proof holds at the end."""
    began = time.monotonic()
    with step(", ".join(example.services)):
        stack.up(example.services)
    api, place = AirflowApi(stack.airflow.url, stack.airflow.login), Place.of(stack)
    told, first_seq, records = [], place.look(HEAD, example.name), 0
    for wave, words in enumerate(example.waves):
        with step(words):
            records += (produced := example.produce(place, wave))
            console.print(f"  {produced:,} records")
        api.wait_for_dag(example.name)
        told += [*example.drained(api, place, wave)]
    with step("the proof: Kafka read once more, without Tidemark, against the tables"):
        differences = example.differences(place)
    console.print(example.shown(place))
    [(batches, rows)] = place.rows(PUBLISHED, example.name, first_seq)
    good = "[bold red]BROKEN[/]" if any(differences.values()) else "[bold green]exactly once[/]"
    counted = ", ".join(f"{count:,} {what}" for what, count in differences.items())
    user, password = stack.airflow.login
    summary = Table.grid(padding=(0, 2))
    for what, words in (
        ("produced", f"{records:,} records"),
        ("published", f"{rows:,} rows in {batches} batches"),
        *told,
        ("proof", f"{good}: {counted}"),
        ("took", f"{time.monotonic() - began:.0f} s"),
        ("Airflow", f"{stack.airflow.url}  user {user}  password {password}"),
        ("Kafka", stack.kafka.bootstrap),
        ("Postgres", f"127.0.0.1:{stack.postgres.port}, database warehouse"),
        ("next", f"make down stops all of it; tidemark status {example.name} looks inside"),
    ):
        summary.add_row(what, words)
    console.print(Panel(summary, title=f"Tidemark: {example.name}", expand=False))
    return not any(differences.values())


def ended(api: AirflowApi, dag: str, run: str, state: str = "success") -> dict[str, str]:
    """The run has ended in this state; the states of its tasks.

    Raises:
        RuntimeError: it ended in another.
    """
    found, tasks = api.wait(dag, run), api.tasks(dag, run)
    if found != state:
        raise RuntimeError(f"run {run} of {dag} ended {found}: {tasks}")
    return tasks


def drivers() -> list[psutil.Process]:
    """The Spark drivers of this project."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_driver = any(word.endswith("jobs/drain.py") for word in words) and "java" not in words[0]
        if is_driver and str(ROOT) in " ".join(words):
            found.append(process)
    return found


def kill_drivers() -> list[int]:
    """SIGKILL the drivers that are there, and see their end; return their process ids.

    Airflow may have started others by then.
    """
    killed = drivers()
    for process in killed:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(killed, timeout=WAIT_SECONDS)
    return [int(process.pid) for process in killed]
