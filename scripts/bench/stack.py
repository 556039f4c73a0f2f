"""A stack for one bench; and for benches of whole runs a topic of flights on it, and its rows."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import psycopg2
import yaml
from psycopg2 import sql
from rich.console import Console
from scripts.bench.usage import ROOT, Usage, measure
from scripts.demo.example import Place
from scripts.demo.flight_data import Record, create_topic, records, replay

from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

EXAMPLE = ROOT / "dags" / "flights.yaml"
MILLION = 3
"""Replays of the flights that make 1,010,328 records."""
console = Console(width=120)


@contextmanager
def stack_of(parts: Sequence[str] = ("kafka", "postgres")) -> Iterator[LocalStack]:
    """Start the parts in .tidemark/bench; erase them at the end."""
    tell = lambda part, text: console.print(f"  {part}: {text}")  # noqa: E731
    stack = LocalStack(ROOT / ".tidemark" / "bench", ROOT, tell=tell)
    stack.up(list(parts))
    try:
        yield stack
    finally:
        stack.down(erase=True)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of one path: what a user would start, into a table of its own."""

    table: str
    argv: list[str]
    env: dict[str, str]
    seconds: Callable[[str], float]
    """Of work, by its output: the start of Python and Spark is not in it."""
    folder: Path
    """Settings, and what the path itself keeps on disk."""


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt that ended well: seconds of work, and what its processes cost."""

    work: float
    usage: Usage


class Bench:
    """One stack, one topic, and a table of its own for each measurement."""

    def __init__(
        self, stack: LocalStack, times: int, flights: Sequence[Record] | None = None
    ) -> None:
        self.stack = stack
        self.topic = f"bench_{time.time_ns()}"
        self.ask = Place.of(stack).rows
        self.flights = list(records()) if flights is None else list(flights)
        self.records = 0
        self._folder = tempfile.TemporaryDirectory()
        create_topic(stack.kafka.bootstrap, self.topic)
        self.add(times)

    def add(self, times: int) -> None:
        """More of the same flights."""
        self.records += replay(self.stack.kafka.bootstrap, self.topic, self.flights, times)

    def attempt(
        self, max_records: int | None = None, transform: str | None = None, **changes: Any
    ) -> Attempt:
        """`tidemark run` of a region of its own; `changes` are merged into the file's sections.

        Batches have exactly `max_records`, whatever their time; None: what the defaults make.
        """
        region = f"bench_{time.time_ns()}"
        settings = yaml.safe_load(EXAMPLE.read_text())
        settings |= {"region": region, "transform": transform, "batch": {}}
        settings["kafka"] |= {"topics": [self.topic], "group": region}
        settings["target"] |= {"table": f"public.{region}"}
        if max_records:
            settings["batch"] = {"max_records": max_records, "seconds": None, "max_bytes": None}
        for section, change in changes.items():
            settings[section] |= change
        folder = self.folder()
        file = folder / f"{region}.yaml"
        file.write_text(yaml.safe_dump(settings))
        argv = [str(Path(sys.executable).parent / "tidemark"), "run", str(file), "-o", "json"]
        own = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(folder)}
        env = self.stack.environment() | own
        return Attempt(region, argv, env, seconds=lambda _: self.work(region), folder=folder)

    def work(self, region: str) -> float:
        """Seconds from the first plan to the last publish."""
        [(seconds,)] = self.ask(
            "SELECT extract(epoch FROM max(published_at) - min(planned_at))"
            " FROM tidemark.batches WHERE region = %s",
            region,
        )
        return float(seconds)

    def measured(self, attempt: Attempt) -> Run:
        """The attempt, run to its end.

        Raises:
            RuntimeError: it did not end well.
        """
        servers = [service.pids[0] for service in self.stack.status() if service.pids]
        usage = measure(attempt.argv, attempt.env, servers)
        return Run(attempt.seconds(usage.output), usage)

    def taken(self, attempt: Attempt, *, of_all: bool = True) -> Run:
        """The attempt on a quiet Postgres, with all rows there; they are gone afterwards.

        Raises:
            RuntimeError: it failed, or rows are missing or too many.
        """
        admin = self.stack.postgres.parameters("postgres", ADMIN)
        with closing(psycopg2.connect(**admin)) as connection:
            connection.autocommit = True
            connection.cursor().execute("CHECKPOINT")  # nobody pays for what others left
        try:
            run = self.measured(attempt)
            if of_all and (rows := self.rows(attempt.table)) != self.records:
                raise RuntimeError(f"{rows:,} of {self.records:,} rows arrived")
            return run
        finally:
            self.erase(attempt)

    def folder(self) -> Path:
        """A new one, which is gone when the bench is."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def rows(self, table: str) -> int:
        """How many are visible; 0 if there is no such table yet."""
        [(there,)] = self.ask("SELECT to_regclass(%s)", table)
        if there is None:
            return 0
        [(rows,)] = self.ask(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        return int(rows)

    def erase(self, attempt: Attempt) -> None:
        """The rows of the attempt are gone, and what it kept."""
        rmtree(attempt.folder, ignore_errors=True)
        for end in ("", "_staging", "_batches", "_offsets"):
            name = sql.Identifier(attempt.table + end)
            self.ask(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
