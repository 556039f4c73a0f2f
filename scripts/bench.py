"""Rows per second, side by side in one run: Tidemark, Spark's own path, and a bare COPY.

The ratios are what to look at: absolute figures belong to this machine and this moment.
"""

import argparse
import io
import json
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import yaml
from bench_tables import Run, comparison, cpu, curve
from flight_data import create_topic, records, replay
from psycopg2 import sql
from rich.console import Console
from usage import Usage, measure

from tidemark.local.jars import fetched, kafka_jars, named_in
from tidemark.local.stack import LocalStack
from tidemark.local.watch import NotStarted, Watch

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".tidemark" / "bench"
SIZES = (50_000, 250_000, 1_000_000)
BATCH_RECORDS = 1_000_000
EXAMPLE = ROOT / "dags" / "flights.yaml"
ARROW = "jobs.flights_arrow:transform"
"""The example's transform in Arrow: the same rows."""
PEER_JARS = ROOT / "scripts" / "spark_peer.jars"
PEER_NOTE = "with the Kafka token provider of Spark 4.0.0, as 4.2.0 of it cannot be fetched"
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

    def tidemark(self, max_records: int, transform: str | None = None) -> Run:
        """Drain the topic by a region of its own."""
        region = f"bench_{time.time_ns()}"
        usage = self.run(region, max_records, self.topic, transform)
        return Run(region, self.work_seconds(region), usage)

    def run(self, region: str, max_records: int, topic: str, transform: str | None = None) -> Usage:
        """`tidemark run` in a process of its own.

        Raises:
            RuntimeError: it did not end well.
        """
        path = Path(tempfile.gettempdir()) / f"{region}.yaml"
        path.write_text(yaml.safe_dump(self.pipeline(region, topic, transform)))
        argv = [str(Path(sys.executable).parent / "tidemark"), "run", str(path), "-o", "json"]
        argv += ["--max-records", str(max_records)]
        env = {**self.environment(), "PYTHONPATH": str(ROOT)}
        usage = measure(argv, env, self.servers, str(ROOT))
        path.unlink()
        if usage.exit_code:
            raise RuntimeError(f"tidemark run ended with {usage.exit_code}: {usage.words[-500:]}")
        return usage

    def environment(self) -> dict[str, str]:
        """The connections."""
        return self.stack.environment()

    def pipeline(self, region: str, topic: str, transform: str | None) -> dict[str, Any]:
        """The worked example, with another topic, target and transform."""
        settings = yaml.safe_load(EXAMPLE.read_text())
        settings |= {"region": region, "transform": transform}
        settings["kafka"] |= {"topics": [topic], "group": region}
        settings["target"] |= {"table": f"public.{region}"}
        return settings

    def work_seconds(self, region: str) -> float:
        """From the first plan to the last publish."""
        [(seconds,)] = self.ask(
            "SELECT extract(epoch FROM max(published_at) - min(planned_at))"
            " FROM tidemark.batches WHERE region = %s",
            region,
        )
        return float(seconds)

    def spark(self, region: str) -> Run:
        """Spark's own path into a table like the region's target.

        Raises:
            NotStarted: an artifact that it needs cannot be fetched.
            RuntimeError: it failed, or not all rows arrived.
        """
        watch = Watch(lambda part, text: console.print(f"  {part}: {text}"))
        folders = [fetched("spark-peer", named_in(PEER_JARS.read_text()), watch), kafka_jars(watch)]
        jars = [*folders[0].glob("*.jar"), *folders[1].glob("kafka-clients-*.jar")]
        table = self.table_like(region)
        argv = [sys.executable, str(ROOT / "scripts" / "spark_peer.py")]
        job = {**self.peer_job(table), "jars": [str(jar) for jar in jars]}
        env = {"SPARK_PEER": json.dumps(job), "SPARK_LOCAL_IP": "127.0.0.1"}
        usage = measure(argv, env, self.servers, str(ROOT))
        if usage.exit_code:
            raise RuntimeError(usage.words.strip()[-500:])
        [(rows,)] = self.ask(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        if rows != self.records:
            raise RuntimeError(f"{rows} of {self.records} rows arrived")
        return Run(table, float(json.loads(usage.output.splitlines()[-1])["seconds"]), usage)

    def peer_job(self, table: str) -> dict[str, Any]:
        """What Spark's own path reads and writes, with the same cores."""
        p = self.postgres
        return {
            "bootstrap": self.stack.kafka.bootstrap,
            "topic": self.topic,
            "table": table,
            "schema": yaml.safe_load(EXAMPLE.read_text())["decode"]["schema"],
            "url": f"jdbc:postgresql://{p['host']}:{p['port']}/{p['dbname']}"
            "?reWriteBatchedInserts=true",
            "user": p["user"],
            "password": p["password"],
            "cores": os.cpu_count(),
        }

    def table_like(self, region: str) -> str:
        """An empty logged table with the columns of the region's target but for `batch_seq`."""
        names = {"like": sql.Identifier(region), "table": sql.Identifier(f"{region}_peer")}
        with closing(psycopg2.connect(**self.postgres)) as connection, connection.cursor() as cur:
            cur.execute(sql.SQL("CREATE TABLE {table} (LIKE {like})").format(**names))
            cur.execute(sql.SQL("ALTER TABLE {table} DROP COLUMN batch_seq").format(**names))
            connection.commit()
        return f"{region}_peer"

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
    sizes = {}
    for size in SIZES:
        console.print(f"Tidemark, {size:,} records a batch …")
        sizes[size] = bench.tidemark(size)
    ours = sizes[BATCH_RECORDS]
    console.print("Tidemark with the example's transform, in Arrow and with DataFrames …")
    transform = yaml.safe_load(EXAMPLE.read_text())["transform"]
    runs = {
        "Tidemark, exactly once": ours,
        "Tidemark with an Arrow transform": bench.tidemark(BATCH_RECORDS, ARROW),
        "Tidemark with a transform": bench.tidemark(BATCH_RECORDS, transform),
    }
    console.print(f"Spark's Kafka source + from_json + write.jdbc ({PEER_NOTE}) …")
    try:
        runs["Spark Kafka source + write.jdbc"] = bench.spark(ours.table)
    except (NotStarted, RuntimeError) as error:
        console.print(f"Spark's own path is left out: {error}")
    console.print("a bare COPY …")
    runs["bare COPY of the same rows"] = Run(ours.table, bench.copy(ours.table))
    title = f"{bench.records:,} flights, {BATCH_RECORDS:,} records a batch"
    console.print(comparison(runs, bench.records, title), cpu(runs, bench.records))
    console.print(curve(sizes, bench.records))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
