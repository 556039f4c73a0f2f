"""What small batches cost: 1,000 records in 200 partitions, 50,000 in 10 beside 1,000,000.

A batch takes from its plan to the next one's plan: job, publish and mirror. The first one pays for
what every process does once and is shown by itself.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from scripts.bench.stack import stack_of
from scripts.demo.flight_data import Record, produce, records

from tidemark.admin.run import run
from tidemark.cli.project import connections_of, find_pipeline
from tidemark.cli.verify import executor_of
from tidemark.model.plan import Bounds
from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "dags" / "flights.yaml"
WIDE, NARROW = 200, 10
"""Partitions of the two topics."""
SMALL, MIDDLE, LARGE = 1_000, 50_000, 1_000_000
"""Records a batch."""
console = Console(width=100)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the batches of one run took."""

    size: int
    seconds: list[float]
    """Of each batch but the last, whose end no plan tells."""

    @property
    def speed(self) -> float:
        """Records per second, without the first batch."""
        return self.size * len(self.seconds[1:]) / sum(self.seconds[1:])


class Bench:
    """One stack and two topics; each run has a region and a target of its own."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.flights = list(records())

    def topic(self, partitions: int, count: int) -> str:
        """A new topic with so many flights, evenly in its partitions."""
        bootstrap, name = self.stack.kafka.bootstrap, f"small_{time.time_ns()}"
        new = NewTopic(name, partitions, 1)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([new])[name].result(60)
        once = {"enable.idempotence": True, "linger.ms": 50, "compression.type": "lz4"}
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **once})
        for number in range(count):
            key, value = self._flight(number)
            produce(producer, name, number % partitions, key, value)
        if producer.flush(120):
            raise TimeoutError("not all flights were acknowledged in 120 s")
        return name

    def cost(self, topic: str, size: int, batches: int) -> Cost:
        """Drain so many batches in this process; its JVM stays for the next run."""
        region = f"small_{time.time_ns()}"
        self.drain(self.file(region, topic), Bounds(size, max_batches=batches))
        planned = self.planned(region)
        seconds = [(after - one).total_seconds() for one, after in pairwise(planned)]
        return Cost(size, seconds)

    def drain(self, file: Path, bounds: Bounds) -> None:
        """A run of one member in this process."""
        pipeline = find_pipeline(str(file), file.parent)
        connections = connections_of(pipeline)
        run(pipeline, connections, bounds=bounds, executor_of=executor_of(pipeline))

    def _flight(self, number: int) -> Record:
        return self.flights[number % len(self.flights)]

    def file(self, region: str, topic: str, transform: str | None = None, **target: object) -> Path:
        """The worked example with another transform, or without, and another target."""
        settings = yaml.safe_load(EXAMPLE.read_text()) | {"region": region, "transform": transform}
        settings["kafka"] |= {"topics": [topic], "group": region}
        settings["target"] |= {"table": f"public.{region}"} | target
        file = self.stack.folder.root / f"{region}.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file

    def planned(self, region: str) -> list[Any]:
        """When each batch was planned."""
        with psycopg2.connect(**self.stack.postgres.parameters("warehouse")) as connection:
            cursor = connection.cursor()
            statement = "SELECT planned_at FROM tidemark.batches WHERE region = %s ORDER BY seq"
            cursor.execute(statement, (region,))
            return [moment for (moment,) in cursor.fetchall()]


def measured(bench: Bench, repeat: int) -> None:
    """The runs in turns, and their table."""
    wide = bench.topic(WIDE, SMALL * 12)
    narrow = bench.topic(NARROW, LARGE * 3)
    cases = {"wide": (wide, SMALL, 12), "middle": (narrow, MIDDLE, 21), "large": (narrow, LARGE, 3)}
    found: dict[str, list[Cost]] = {name: [] for name in cases}
    for _ in range(repeat):
        for name, case in cases.items():
            found[name].append(bench.cost(*case))
            console.print(f"  {case[1]:,} a batch: {row(found[name][-1])}")
    second = median(one.seconds[1] for one in found["wide"])
    console.print(f"second batch of {SMALL:,} records in {WIDE} partitions: {second:.2f} s")
    speeds = {name: median(one.speed for one in costs) for name, costs in found.items()}
    ratio = speeds["middle"] / speeds["large"]
    console.print(f"{MIDDLE:,} records a batch: {ratio:.2f} x the speed of {LARGE:,}")


def row(cost: Cost) -> str:
    """One run in words."""
    first, *rest = cost.seconds
    return (
        f"first {first:.2f} s, then {median(rest):.2f} s ({min(rest):.2f} to {max(rest):.2f}),"
        f" {cost.speed:,.0f} records/s"
    )


def main() -> None:
    """Measure, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--keep", action="store_true", help="leave the stack as it is")
    chosen = arguments.parse_args()
    with stack_of("small", keep=chosen.keep) as stack:
        os.environ |= stack.environment() | {"PYTHONPATH": str(ROOT)}
        measured(Bench(stack), chosen.repeat)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
