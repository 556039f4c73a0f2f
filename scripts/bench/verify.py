"""How fast `tidemark verify` proves what was drained: `make bench WHAT=verify`.

The same flights are drained by regions with batches of several sizes, with and without the worked
example's transform, and each region is proven. Spark's start is in the CPU seconds, not in the
records per second.
"""

import argparse
import json
import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import psycopg2
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table
from scripts.bench.stack import stack_of
from scripts.bench.usage import Usage, measure
from scripts.demo.flight_data import records

from tidemark.cli.project import connections_of, find_pipeline
from tidemark.cli.verify import executor_of
from tidemark.settings.endpoints import Endpoints
from tidemark.spark.specs import job_spec
from tidemark.verify.verify import verify
from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".tidemark" / "bench"
EXAMPLE = ROOT / "dags" / "flights.yaml"
PARTITIONS = 3
SMALL, LARGE = 1_430, 200_000
console = Console(width=110)


@dataclass(frozen=True, slots=True)
class Proven:
    """One region: how it was drained, and what its proof took."""

    batches: int
    drained: float
    """Seconds from the first plan to the last publish."""
    proven: float
    """Seconds of the proof, Spark's start left out."""
    usage: Usage
    """Of the proof's process, Spark's start included."""


class Bench:
    """One stack and one topic; each measurement has a region and a target of its own."""

    def __init__(self, stack: LocalStack, count: int) -> None:
        self.stack, self.count = stack, count
        self.topic = f"bench_{time.time_ns()}"
        self.servers = {status.service: status.pids[0] for status in stack.status() if status.pids}
        produce(stack.kafka.bootstrap, self.topic, count)

    def measured(self, max_records: int, transform: str | None) -> Proven:
        """Drain the topic into batches of this size, and prove them."""
        file = self.drained(max_records, transform)
        usage = self.run(sys.executable, "-m", "scripts.bench.verify", "--prove", str(file))
        found = json.loads(usage.output.splitlines()[-1])
        if found["wrong"] or found["records"] != self.count:
            raise RuntimeError(f"the proof of {file.stem} found {found}")
        return Proven(found["batches"], self.work_seconds(file.stem), found["seconds"], usage)

    def drained(self, max_records: int, transform: str | None) -> Path:
        """The file of a region that has drained the topic."""
        region = f"bench_{time.time_ns()}"
        file = STATE / f"{region}.yaml"
        settings = yaml.safe_load(EXAMPLE.read_text()) | {"region": region, "transform": transform}
        settings["kafka"] |= {"topics": [self.topic], "group": region}
        settings["target"] |= {"table": f"public.{region}"}
        file.write_text(yaml.safe_dump(settings))
        bounds = ("--max-records", str(max_records), "-o", "json")
        self.run(str(Path(sys.executable).parent / "tidemark"), "run", str(file), *bounds)
        return file

    def run(self, *argv: str) -> Usage:
        """A process with the stack's connections.

        Raises:
            RuntimeError: it did not end well.
        """
        paths = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
        env = {**self.stack.environment(), "PYTHONPATH": paths}
        usage = measure(argv, env, self.servers, str(ROOT))
        if usage.exit_code:
            raise RuntimeError(f"{' '.join(argv)} failed: {usage.words[-500:]}")
        return usage

    def work_seconds(self, region: str) -> float:
        """From the first plan to the last publish."""
        with closing(psycopg2.connect(**self.stack.postgres.parameters("warehouse"))) as asked:
            cursor = asked.cursor()
            cursor.execute(
                "SELECT extract(epoch FROM max(published_at) - min(planned_at))"
                " FROM tidemark.batches WHERE region = %s",
                (region,),
            )
            return float((cursor.fetchone() or (0,))[0])


def produce(bootstrap: str, topic: str, count: int) -> None:
    """The topic holds so many flights, evenly in its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50})
    for number, (key, value) in enumerate(islice(cycle(records()), count)):
        producer.produce(topic, value, key, number % PARTITIONS)
        if number % 50_000 == 0:
            producer.flush(60)
    if producer.flush(60):
        raise TimeoutError("not all flights were acknowledged in 60 s")


def prove(file: Path) -> dict[str, Any]:
    """Prove the region of a pipeline file by Spark that is up already."""
    pipeline = find_pipeline(str(file), file.parent)
    connections = connections_of(pipeline)
    executor = executor_of(pipeline)(job_spec(pipeline, Endpoints.of(pipeline, connections)))
    executor.output_schemas()
    begin = time.monotonic()
    report = verify(pipeline, connections, executor_of=lambda *_: executor)
    return {
        "seconds": time.monotonic() - begin,
        "wrong": report.wrong + report.unverifiable,
        "batches": len(report.batches),
        "records": sum(batch.records for batch in report.batches),
    }


def table_of(found: dict[str, Proven], count: int) -> Table:
    """The figures, a line for each region."""
    table = Table(title=f"{count:,} records in {PARTITIONS} partitions")
    table.add_column("region")
    names = ("batches", "drained/s", "proven/s", "proof : drain", "CPU s of the proof", "peak MB")
    for name in names:
        table.add_column(name, justify="right")
    for name, one in found.items():
        table.add_row(
            name,
            f"{one.batches:,}",
            f"{count / one.drained:,.0f}",
            f"{count / one.proven:,.0f}",
            f"{one.drained / one.proven:.2f}",
            f"{sum(one.usage.cpu.values()):.1f}",
            f"{one.usage.peak_total_mb:,.0f}",
        )
    return table


def main() -> None:
    """Measure, print, and stop what was started; or prove one region."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--records", type=int, default=400_000)
    arguments.add_argument("--prove", type=Path, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.prove:
        sys.stdout.write(json.dumps(prove(chosen.prove)) + "\n")
        return
    with stack_of("bench") as stack:
        bench, found = Bench(stack, chosen.records), {}
        for size in (SMALL, LARGE):
            for name, transform in (("", None), (" with a transform", "jobs.flights:transform")):
                console.print(f"batches of {size:,} records{name} …")
                found[f"batches of {size:,}{name}"] = bench.measured(size, transform)
        console.print(table_of(found, chosen.records))


if __name__ == "__main__":
    main()
