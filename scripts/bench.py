"""Rows per second, side by side in one run: Tidemark, Spark's own path, and a bare COPY.

The ratios are what to look at: absolute figures belong to this machine and this moment.
"""

import argparse
import io
import json
import os
import re
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import yaml
from flight_data import create_topic, records, replay
from psycopg2 import sql
from rich.console import Console
from rich.table import Table
from usage import Usage, measure

from tidemark.local.stack import LocalStack

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".tidemark" / "bench"
SIZES = (50_000, 250_000, 1_000_000)
BATCH_RECORDS = 250_000
console = Console(width=110)


class Bench:
    """One stack, one topic, and a region with a target of its own for each measurement."""

    def __init__(self, stack: LocalStack, times: int) -> None:
        self.stack = stack
        self.topic = f"bench_{time.time_ns()}"
        self.postgres = stack.postgres.parameters("warehouse")
        create_topic(stack.kafka.bootstrap, self.topic)
        flights = list(records())
        self.records = replay(stack.kafka.bootstrap, self.topic, flights, times)
        self.servers = {status.service: status.pids[0] for status in stack.status() if status.pids}

    def tidemark(self, max_records: int) -> tuple[str, Usage, float]:
        """Drain the topic by a region of its own: region, usage, seconds of work."""
        region = f"bench_{time.time_ns()}"
        usage = self.run(region, max_records)
        return region, usage, self.work_seconds(region)

    def run(self, region: str, max_records: int, topic: str | None = None) -> Usage:
        """`tidemark run` in a process of its own.

        Raises:
            RuntimeError: it did not end well.
        """
        path = Path(tempfile.gettempdir()) / f"{region}.yaml"
        path.write_text(yaml.safe_dump(self.pipeline(region, topic or self.topic)))
        argv = [str(Path(sys.executable).parent / "tidemark"), "run", str(path), "-o", "json"]
        argv += ["--max-records", str(max_records)]
        env = {**self.stack.environment(), "PYTHONPATH": str(ROOT)}
        usage = measure(argv, env, self.servers, str(ROOT))
        path.unlink()
        if usage.exit_code:
            raise RuntimeError(f"tidemark run ended with {usage.exit_code}: {usage.words[-500:]}")
        return usage

    def pipeline(self, region: str, topic: str) -> dict[str, Any]:
        """The worked example without its transform: what is measured is the way of a row."""
        settings = yaml.safe_load((ROOT / "dags" / "flights.yaml").read_text())
        settings |= {"region": region}
        settings["kafka"] |= {"topics": [topic], "group": region}
        settings["target"] |= {"table": f"public.{region}"}
        del settings["transform"]
        return settings

    def batches(self, region: str) -> list[float]:
        """Seconds of each batch, from its plan to its publish."""
        found = self.ask(
            "SELECT extract(epoch FROM published_at - planned_at) FROM tidemark.batches"
            " WHERE region = %s ORDER BY seq",
            region,
        )
        return [float(seconds) for (seconds,) in found]

    def work_seconds(self, region: str) -> float:
        """From the first plan to the last publish."""
        [(seconds,)] = self.ask(
            "SELECT extract(epoch FROM max(published_at) - min(planned_at))"
            " FROM tidemark.batches WHERE region = %s",
            region,
        )
        return float(seconds)

    def spark(self) -> tuple[Usage, float]:
        """Spark's own path into a table like the target."""
        table = f"spark_{time.time_ns()}"
        p = self.postgres
        job = {
            "bootstrap": self.stack.kafka.bootstrap,
            "topic": self.topic,
            "table": table,
            "schema": yaml.safe_load((ROOT / "dags" / "flights.yaml").read_text())["decode"][
                "schema"
            ],
            "url": f"jdbc:postgresql://{p['host']}:{p['port']}/{p['dbname']}"
            "?reWriteBatchedInserts=true",
            "user": p["user"],
            "password": p["password"],
            "cores": os.cpu_count(),
        }
        argv = [sys.executable, str(ROOT / "scripts" / "spark_peer.py")]
        env = {"SPARK_PEER": json.dumps(job), "SPARK_LOCAL_IP": "127.0.0.1"}
        usage = measure(argv, env, self.servers, str(ROOT))
        if usage.exit_code:
            raise RuntimeError(_reason(usage.words))
        [(rows,)] = self.ask(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        if rows != self.records:
            raise RuntimeError(f"{rows} of {self.records} rows arrived")
        return usage, float(json.loads(usage.output.splitlines()[-1])["seconds"])

    def copy(self, region: str) -> float:
        """COPY BINARY of the same rows into a table like the target: what Postgres can take."""
        names = {"source": sql.Identifier(region), "copy": sql.Identifier(f"{region}_copy")}
        with closing(psycopg2.connect(**self.postgres)) as connection, connection.cursor() as cur:
            rows = io.BytesIO()
            copy_out = sql.SQL("COPY {source} TO STDOUT (FORMAT binary)").format(**names)
            cur.copy_expert(copy_out, rows)
            cur.execute(sql.SQL("CREATE TABLE {copy} (LIKE {source})").format(**names))
            connection.commit()
            rows.seek(0)
            started = time.monotonic()
            copy_in = sql.SQL("COPY {copy} FROM STDIN (FORMAT binary)").format(**names)
            cur.copy_expert(copy_in, rows, size=1 << 20)
            connection.commit()
            return time.monotonic() - started

    def ask(self, statement: Any, *values: Any) -> list[tuple[Any, ...]]:
        """A look into the ledger."""
        with closing(psycopg2.connect(**self.postgres)) as connection, connection.cursor() as cur:
            cur.execute(statement, values or None)
            return list(cur.fetchall())


def _reason(words: str) -> str:
    """The artifact that could not be fetched, or the last thing that was said."""
    missing = re.findall(r"unresolved dependency: ([^:\]]+(?:: [\w ]+)?)", words)
    return f"{missing[0]} could not be fetched" if missing else words.strip().splitlines()[-1]


def main() -> int:
    """Measure, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--times", type=int, default=6, help="replays of 336,776 flights")
    times = arguments.parse_args().times
    stack = LocalStack(STATE, ROOT, tell=lambda part, text: console.print(f"  {part}: {text}"))
    stack.up(["kafka", "postgres"])
    try:
        console.print(f"replaying the flights {times} times …")
        measured(Bench(stack, times))
    finally:
        stack.down(erase=True)
    return 0


def measured(bench: Bench) -> None:
    """All measurements, one after the other, and their tables."""
    runs = {}
    for size in SIZES:
        console.print(f"Tidemark, {size:,} records a batch …")
        runs[size] = bench.tidemark(size)
    region, usage, work = runs[BATCH_RECORDS]
    rows = [("Tidemark, exactly once", work, usage)]
    try:
        console.print("Spark's Kafka source + from_json + write.jdbc …")
        spark_usage, spark_work = bench.spark()
        rows.append(("Spark Kafka source + write.jdbc", spark_work, spark_usage))
    except RuntimeError as error:
        console.print(f"Spark's own path is left out: {error}")
    console.print("a bare COPY …")
    rows.append(("bare COPY of the same rows", bench.copy(region), Usage()))
    console.print(comparison(rows, bench.records), cpu(rows, bench.records))
    console.print(curve(runs, bench.records), fixed_costs(bench))


def comparison(rows: list[tuple[str, float, Usage]], records: int) -> Table:
    """Rows per second and the ratios."""
    table = Table(title=f"{records:,} flights, {BATCH_RECORDS:,} records a batch")
    for name in ("path", "work s", "rows/s", "process s", "Tidemark is"):
        table.add_column(name, justify="left" if name == "path" else "right")
    ours = rows[0][1]
    for name, work, usage in rows:
        process = f"{usage.wall:.1f}" if usage.wall else "-"
        ratio = f"{work / ours:.2f} x" if work != ours else "-"
        table.add_row(name, f"{work:.2f}", f"{records / work:,.0f}", process, ratio)
    return table


def cpu(rows: list[tuple[str, float, Usage]], records: int) -> Table:
    """CPU seconds per million rows by process, and peak memory."""
    table = Table(title="CPU seconds per million rows (whole process); peak memory in MB")
    roles = ["driver", "Spark JVM", "Python workers", "kafka", "postgres"]
    for name in ("path", *roles, "peak MB"):
        table.add_column(name, justify="left" if name == "path" else "right")
    for name, _, usage in rows:
        if usage.wall:
            seconds = [f"{usage.cpu.get(role, 0) / records * 1e6:.1f}" for role in roles]
            table.add_row(name, *seconds, f"{sum(usage.peak_mb.values()):,.0f}")
    return table


def curve(runs: dict[int, tuple[str, Usage, float]], records: int) -> Table:
    """What the batch size does."""
    table = Table(title="the batch size")
    for name in ("records a batch", "rows/s", "peak MB, driver", "JVM", "Python workers"):
        table.add_column(name, justify="right")
    for size, (_, usage, work) in runs.items():
        peaks = [usage.peak_mb.get(role, 0) for role in ("driver", "Spark JVM", "Python workers")]
        table.add_row(f"{size:,}", f"{records / work:,.0f}", *(f"{mb:,.0f}" for mb in peaks))
    return table


def fixed_costs(bench: Bench) -> Table:
    """What a run costs that has little or nothing to do."""
    topic = f"small_{time.time_ns()}"
    region = f"small_{time.time_ns()}"
    create_topic(bench.stack.kafka.bootstrap, topic)
    one = next(records())
    replay(bench.stack.kafka.bootstrap, topic, [one] * 3)
    little = bench.run(region, 1, topic)
    nothing = bench.run(region, 1, topic)
    first, second, third = bench.batches(region)
    table = Table(title="fixed costs, seconds")
    for name in ("run without a backlog (no Spark)", "run of 3 records", "first batch", "second"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{nothing.wall:.1f}", f"{little.wall:.1f}", f"{first:.2f}", f"{min(second, third):.2f}"
    )
    if "Spark JVM" in nothing.peak_mb:
        raise RuntimeError("a run without a backlog started Spark")
    return table


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
