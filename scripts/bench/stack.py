"""A stack for one bench; and for benches of whole runs a topic of flights on it, and its rows.

An attempt is one process of one path: what is started. A run is what came of it.
"""

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
from confluent_kafka import Consumer, TopicPartition
from psycopg2 import sql
from rich.console import Console
from scripts.bench.usage import Usage, measure
from scripts.demo.flight_data import PARTITIONS, Record, create_topic, records, replay

from tidemark_local.postgres import ADMIN
from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "dags" / "flights.yaml"
MILLION = 3
"""Replays of the flights that make 1,010,328 records."""
console = Console(width=120)


@contextmanager
def stack_of(
    name: str, parts: Sequence[str] = ("kafka", "postgres"), *, keep: bool = False
) -> Iterator[LocalStack]:
    """Start the parts in .tidemark/NAME; erase them at the end, unless they are kept."""
    stack = LocalStack(ROOT / ".tidemark" / name, ROOT, tell=_tell)
    stack.up(list(parts))
    try:
        yield stack
    finally:
        if not keep:
            stack.down(erase=True)


def _tell(part: str, text: str) -> None:
    console.print(f"  {part}: {text}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a user would start, into a table of its own."""

    table: str
    argv: list[str]
    env: dict[str, str]
    seconds: Callable[[Usage], float]
    """Of work: the start of Python and Spark is not in it."""
    folder: Path
    """Settings, and what the path itself keeps on disk."""


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt that ended well: seconds of work, and what its processes cost."""

    table: str
    work: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class Killed:
    """What Postgres holds in the end, beside what Kafka holds."""

    visible: int
    """Rows when it was killed."""
    lost: int
    doubled: int


class Bench:
    """One stack, one topic, and a table of its own for each measurement."""

    def __init__(
        self, stack: LocalStack, times: int, flights: Sequence[Record] | None = None
    ) -> None:
        self.stack = stack
        self.topic = f"bench_{time.time_ns()}"
        self.postgres = stack.postgres.parameters("warehouse")
        create_topic(stack.kafka.bootstrap, self.topic)
        self.flights = list(records()) if flights is None else list(flights)
        self.records = 0
        self.add(times)
        self._folder = tempfile.TemporaryDirectory()

    def add(self, times: int) -> None:
        """More of the same flights."""
        self.records += replay(self.stack.kafka.bootstrap, self.topic, self.flights, times)

    def attempt(
        self,
        max_records: int | None,
        transform: str | None = None,
        **changes: dict[str, Any],
    ) -> Attempt:
        """`tidemark run` of a region of its own; `changes` are merged into the file's sections.

        Batches have exactly `max_records`, whatever their time; None: what the defaults make.
        """
        region = f"bench_{time.time_ns()}"
        settings = self.pipeline(region, self.topic, transform)
        for section, change in changes.items():
            settings[section] |= change
        exact = {"max_records": max_records, "seconds": None, "max_bytes": None}
        settings["batch"] |= exact if max_records else {}
        folder = self.folder()
        file = folder / f"{region}.yaml"
        file.write_text(yaml.safe_dump(settings))
        argv = [str(Path(sys.executable).parent / "tidemark"), "run", str(file), "-o", "json"]
        env = {**self.environment(), "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(folder)}
        return Attempt(
            table=region,
            argv=argv,
            env=env,
            seconds=lambda _: self.work_seconds(region),
            folder=folder,
        )

    def measured(self, attempt: Attempt) -> Run:
        """The attempt, run to its end.

        Raises:
            RuntimeError: it did not end well.
        """
        status = self.stack.status()
        servers = {service.service: service.pids[0] for service in status if service.pids}
        usage = measure(attempt.argv, attempt.env, servers, str(ROOT))
        if usage.exit_code:
            raise RuntimeError(f"ended with {usage.exit_code}: {last_words(usage)}")
        return Run(attempt.table, attempt.seconds(usage), usage)

    def taken(self, attempt: Attempt) -> Run:
        """The attempt on a quiet Postgres, with all rows there; they are gone afterwards.

        Raises:
            RuntimeError: it failed, or rows are missing or too many.
        """
        self.settle()
        try:
            run = self.measured(attempt)
            if (rows := self.rows(attempt.table)) != self.records:
                raise RuntimeError(f"{rows:,} of {self.records:,} rows arrived")
            return run
        finally:
            self.erase(attempt)

    def folder(self) -> Path:
        """A new one, which is gone when the bench is."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def environment(self) -> dict[str, str]:
        """The connections."""
        return self.stack.environment()

    def pipeline(self, region: str, topic: str, transform: str | None) -> dict[str, Any]:
        """The worked example, with another topic, target and transform."""
        settings = yaml.safe_load(EXAMPLE.read_text())
        settings |= {"region": region, "transform": transform, "batch": {}}
        settings["kafka"] |= {"topics": [topic], "group": region}
        settings["target"] |= {"table": f"public.{region}"}
        return settings  # type: ignore[no-any-return]

    def work_seconds(self, region: str) -> float:
        """From the first plan to the last publish."""
        [(seconds,)] = self.ask(
            "SELECT extract(epoch FROM max(published_at) - min(planned_at))"
            " FROM tidemark.batches WHERE region = %s",
            region,
        )
        return float(seconds)

    def rows(self, table: str) -> int:
        """How many are visible; 0 if there is no such table yet."""
        [(there,)] = self.ask("SELECT to_regclass(%s)", table)
        if there is None:
            return 0
        [(rows,)] = self.ask(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        return int(rows)

    def in_kafka(self) -> int:
        """How many offsets the topic holds; each is a record, as nothing else writes to it."""
        settings = {"bootstrap.servers": self.stack.kafka.bootstrap, "group.id": self.topic}
        with closing(Consumer({**settings, "log_level": 0})) as consumer:
            places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
            marks = [consumer.get_watermark_offsets(place, timeout=20) for place in places]
        return sum(high - low for low, high in marks)

    def ask(self, statement: Any, *values: Any) -> list[tuple[Any, ...]]:
        """A look into Postgres."""
        with closing(psycopg2.connect(**self.postgres)) as connection, connection.cursor() as cur:
            cur.execute(statement, values or None)
            return list(cur.fetchall())

    def settle(self) -> None:
        """Postgres has written what earlier paths left in its memory: nobody pays for it later."""
        admin = self.stack.postgres.parameters("postgres", ADMIN)
        with closing(psycopg2.connect(**admin)) as connection:
            connection.autocommit = True
            connection.cursor().execute("CHECKPOINT")

    def erase(self, attempt: Attempt) -> None:
        """The rows of the attempt are gone, and what it kept."""
        rmtree(attempt.folder, ignore_errors=True)
        with closing(psycopg2.connect(**self.postgres)) as connection, connection:
            for end in ("", "_staging", "_batches", "_offsets"):
                name = sql.Identifier(attempt.table + end)
                connection.cursor().execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))


def last_words(usage: Usage) -> str:
    """What a process that failed said at last."""
    return usage.words.strip()[-500:]
