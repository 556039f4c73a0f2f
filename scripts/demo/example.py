"""An example in two waves: each is drained by a run, and the first run loses its drivers once."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg2
from rich.panel import Panel
from rich.table import Table
from scripts.demo.airflow_api import AirflowApi
from scripts.demo.draining import Warehouse, kill_drivers
from scripts.demo.steps import console, step, wait_for

from tidemark_local.stack import LocalStack

BATCH_RECORDS = 20_000


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

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the warehouse answers."""
        with closing(psycopg2.connect(**self.warehouse)) as connection, connection:
            cursor = connection.cursor()
            cursor.execute(query)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows


class Example(Protocol):
    """A pipeline of dags/, with the records of its topic."""

    name: str
    """Of its DAG and its region."""
    topic: str

    @property
    def services(self) -> Sequence[str]:
        """Of the local stack."""

    @property
    def waves(self) -> Sequence[str]:
        """What each of its waves is."""

    def produce(self, place: Place, wave: int) -> int:
        """The records of this wave are in the topic; how many they are."""

    def differences(self, place: Place) -> Mapping[str, int]:
        """The topic read once more, without Tidemark, against the tables: all are 0."""

    def shown(self, place: Place) -> Table:
        """A few rows, for a reader."""


def tell(stack: LocalStack, example: Example) -> bool:
    """Whether the proof holds at the end."""
    began = time.monotonic()
    with step(", ".join(example.services)):
        stack.up(example.services)
    api = AirflowApi(stack.airflow.url, stack.airflow.login)
    place = Place.of(stack)
    warehouse = Warehouse(place.warehouse, example.name)
    first_seq = warehouse.head()
    for wave, words in enumerate(example.waves):
        with step(words):
            console.print(f"  {example.produce(place, wave):,} records")
        api.wait_for_dag(example.name)
        drained(api, warehouse, example, killed=wave == 0)
    with step("the proof: Kafka read once more, without Tidemark, against the tables"):
        differences = example.differences(place)
    console.print(example.shown(place))
    published = warehouse.published_after(first_seq)
    console.print(summary(example, differences, published, time.monotonic() - began, stack))
    return not any(differences.values())


def drained(api: AirflowApi, warehouse: Warehouse, example: Example, *, killed: bool) -> None:
    """One run of the DAG; its drivers are killed after its first batch, and Airflow tries again."""
    run, at = f"demo-{time.time_ns()}", warehouse.head()
    api.trigger(example.name, run, max_records=BATCH_RECORDS)
    if killed:
        with step("a run drains; kill its drivers after the first batch: they are tried again"):
            wait_for(lambda: warehouse.head() > at, "the first batch")
            console.print(f"  killed {', '.join(map(str, kill_drivers())) or 'nobody'}")
    with step(f"run {run} goes to the end of the topic"):
        state = api.wait(example.name, run)
    if state != "success":
        raise RuntimeError(f"run {run} ended {state}: {api.tasks(example.name, run)}")


def summary(
    example: Example,
    differences: Mapping[str, int],
    published: tuple[int, int],
    seconds: float,
    stack: LocalStack,
) -> Panel:
    """One readable page."""
    batches, rows = published
    user, password = stack.airflow.login
    table = Table.grid(padding=(0, 2))
    table.add_row("published", f"{rows:,} rows in {batches} batches")
    good = "[bold red]BROKEN[/]" if any(differences.values()) else "[bold green]exactly once[/]"
    table.add_row("proof", good)
    for what, count in differences.items():
        table.add_row("", f"{count:,} {what}")
    table.add_row("took", f"{seconds:.0f} s")
    table.add_row("Airflow", f"{stack.airflow.url}  user {user}  password {password}")
    table.add_row("next", f"tidemark status {example.name} looks inside; make down stops all of it")
    return Panel(table, title=f"Tidemark: {example.name}", expand=False)
