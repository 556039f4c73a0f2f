"""What partitions take on the real broker: `make bench WHAT=width`.

A run of 50,000 records in 2,000 partitions, by its steps, and the run without a backlog after it.
Then the open and the mirror of 5,000 partitions. Spark's start is shown and belongs to no step.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from rich.console import Console
from rich.table import Table
from scripts.bench.stack import stack_of
from scripts.bench.usage import tree_cpu
from scripts.demo.flight_data import records
from scripts.demo.steps import wait_for

from tidemark.admin.run import close_run
from tidemark.cli.project import connections_of, find_pipeline
from tidemark.cli.verify import executor_of
from tidemark.model.plan import Bounds
from tidemark.protocol.mirror import mirror
from tidemark.runs.member import drain_run
from tidemark.runs.open import open_run
from tidemark.runs.region import region_of
from tidemark.settings.pipeline import Pipeline
from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".tidemark" / "width"
EXAMPLE = ROOT / "dags" / "flights.yaml"
AT_ONCE = 1_000
"""Partitions that the topic gets by one request."""
console = Console(width=90)


class Bench:
    """One stack; each measurement has a topic and a region of its own."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.servers = [status.pids[0] for status in stack.status() if status.pids]
        self.took: dict[str, tuple[float, float]] = {}

    def timed(self, what: str, step: Callable[[], Any]) -> Any:
        """Take the step and keep its seconds, and the CPU seconds of all that worked for it."""
        before, begin = self.cpu(), time.monotonic()
        found = step()
        self.took[what] = (time.monotonic() - begin, self.cpu() - before)
        return found

    def cpu(self) -> float:
        """CPU seconds up to now, of this process with its children and of Kafka and Postgres."""
        return sum(map(tree_cpu, (os.getpid(), *self.servers)))

    def run(self, partitions: int, count: int) -> None:
        """A run by its steps, then `tidemark run` without a backlog."""
        topic = create_topic(self.stack.kafka.bootstrap, partitions)
        produce(self.stack.kafka.bootstrap, topic, partitions, count)
        file, pipeline = self.pipeline(topic)
        connections = connections_of(pipeline)
        bounds = Bounds(pipeline.batch.max_records)
        self.timed("open", lambda: open_run(pipeline, connections, bounds=bounds, run_id="bench"))
        of_spark = executor_of(pipeline)

        def start(*arguments: Any) -> Any:
            executor = of_spark(*arguments)
            self.timed("Spark's start", executor.output_schemas)
            return executor

        self.timed(
            "drain, with Spark's start",
            lambda: drain_run(
                pipeline, connections, run_id="bench", member_name="bench", executor_of=start
            ),
        )
        closed = self.timed("close", lambda: close_run(pipeline, connections, run_id="bench"))
        if closed.records != count:
            raise RuntimeError(f"{closed.records} of {count} records were published")
        self.took["run without Spark's start"] = (self.without_spark(0), self.without_spark(1))
        self.timed("process of a run without a backlog", lambda: run_again(file))

    def without_spark(self, measure: int) -> float:
        """The seconds, or the CPU seconds, of a run."""
        own = sum(
            self.took[step][measure] for step in ("open", "drain, with Spark's start", "close")
        )
        return own - self.took["Spark's start"][measure]

    def open(self, partitions: int) -> None:
        """The open of a wide region, with the mirror in it; and the mirror again."""
        _, pipeline = self.pipeline(create_topic(self.stack.kafka.bootstrap, partitions))
        connections, bounds = connections_of(pipeline), Bounds(1)
        opened = self.timed(
            f"open {partitions:,} partitions",
            lambda: open_run(pipeline, connections, run_id="bench", bounds=bounds),
        )
        with region_of(pipeline, connections) as region:
            topics = pipeline.kafka.topics
            self.timed("Kafka's facts of them", lambda: region.broker.facts(topics))
            self.timed(
                "mirror of them",
                lambda: mirror(region.ledger, region.group, region.name, opened.epoch),
            )

    def pipeline(self, topic: str) -> tuple[Path, Pipeline]:
        """The worked example without a transform, on this topic; its file and what that says."""
        settings = yaml.safe_load(EXAMPLE.read_text()) | {"region": topic, "transform": None}
        settings["kafka"] |= {"topics": [topic], "group": topic}
        settings["target"] |= {"table": f"public.{topic}"}
        file = STATE / f"{topic}.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file, find_pipeline(str(file), file.parent)


def create_topic(bootstrap: str, partitions: int) -> str:
    """A new topic with so many partitions, each with a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = f"wide_{time.time_ns()}"
    admin.create_topics([NewTopic(topic, min(partitions, AT_ONCE), 1)])[topic].result(60)
    for width in range(2 * AT_ONCE, partitions + AT_ONCE, AT_ONCE):
        grown = NewPartitions(topic, min(width, partitions))
        admin.create_partitions([grown])[topic].result(120)
    is_led = partial(_is_led, admin, topic, partitions)
    wait_for(is_led, f"a leader of each partition of {topic}", pause=0.5)
    return topic


def _is_led(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=60).topics[topic].partitions
    return len(found) == partitions and all(one.leader >= 0 for one in found.values())


def produce(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """So many flights, evenly in the partitions."""
    once = {"enable.idempotence": True, "linger.ms": 200, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **once})
    for number, (key, value) in zip(range(count), records(), strict=False):
        producer.produce(topic, value, key, number % partitions)
    if producer.flush(120):
        raise TimeoutError("not all flights were acknowledged in 120 s")


def run_again(file: Path) -> None:
    """`tidemark run` in a process of its own."""
    command = [str(Path(sys.executable).parent / "tidemark"), "run", str(file), "-o", "json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main() -> None:
    """Measure, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--partitions", type=int, default=2_000, help="of the run; 0: no run")
    arguments.add_argument("--records", type=int, default=50_000)
    arguments.add_argument("--open", type=int, default=5_000, help="partitions; 0: no open")
    arguments.add_argument("--keep", action="store_true", help="leave the stack as it is")
    chosen = arguments.parse_args()
    with stack_of("width", keep=chosen.keep) as stack:
        os.environ |= stack.environment() | {"PYTHONPATH": str(ROOT)}
        bench = Bench(stack)
        if chosen.partitions:
            bench.run(chosen.partitions, chosen.records)
        if chosen.open:
            bench.open(chosen.open)
    title = f"{chosen.records:,} records in {chosen.partitions:,} partitions"
    table = Table("what", "seconds", "CPU seconds", title=title)
    for what, measures in bench.took.items():
        table.add_row(what, *(f"{measure:.2f}" for measure in measures))
    console.print(table)


if __name__ == "__main__":
    main()
