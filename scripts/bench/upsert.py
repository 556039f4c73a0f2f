"""Upserts beside appends of the same rows: `make bench WHAT=upsert`.

A million flights in batches of 250,000 through one member, with 100,000 keys and with 1,000,000,
in turns. The first batch is left out. Both tables get the same columns; only the upserted one has
a primary key.
"""

import argparse
import os
import sys
import time
from itertools import product
from statistics import median

import psycopg2
from rich.console import Console
from rich.table import Table
from scripts.bench.small_batches import ROOT, Bench
from scripts.bench.stack import stack_of
from scripts.demo.flight_data import PARTITIONS

from tidemark.model.plan import Bounds

RECORDS = 1_000_000
BATCH = 250_000
KEYS = {
    "100,000": "scripts.demo.flight_data:of_100_000",
    "1,000,000": "scripts.demo.flight_data:of_1_000_000",
}
MODES: dict[str, dict[str, object]] = {
    "append": {"mode": "append"},
    "upsert": {"mode": "upsert", "key": ["id"]},
}
_SPEED = """
SELECT sum(records) / extract(epoch FROM max(published_at) - min(planned_at))
FROM tidemark.batches b
WHERE region = %s AND seq > (SELECT min(seq) FROM tidemark.batches f WHERE f.region = b.region)
"""
console = Console(width=100)


def speed(bench: Bench, topic: str, transform: str, target: dict[str, object]) -> float:
    """Records a second, from the plan of the second batch to the last publish."""
    region = f"upsert_{time.time_ns()}"
    bench.drain(bench.file(region, topic, transform, **target), Bounds(BATCH))
    with psycopg2.connect(**bench.stack.postgres.parameters("warehouse")) as connection:
        cursor = connection.cursor()
        cursor.execute(_SPEED, (region,))
        (found,) = cursor.fetchone() or (0,)
        cursor.execute(f"DROP TABLE public.{region}")
    return float(found)


def measured(bench: Bench, repeat: int) -> None:
    """The runs in turns, and their table."""
    topic = bench.topic(PARTITIONS, RECORDS)
    found: dict[tuple[str, str], list[float]] = {}
    for _, keys, mode in product(range(repeat), KEYS, MODES):
        found.setdefault((keys, mode), []).append(speed(bench, topic, KEYS[keys], MODES[mode]))
        console.print(f"  {mode}, {keys} keys: {found[keys, mode][-1]:,.0f} records/s")
    table = Table("keys", title=f"{RECORDS:,} records, {BATCH:,} a batch, records a second")
    for name in ("append", "upsert", "upsert ÷ append"):
        table.add_column(name, justify="right")
    for keys in KEYS:
        append, upsert = (median(found[keys, mode]) for mode in MODES)
        table.add_row(keys, f"{append:,.0f}", f"{upsert:,.0f}", f"{upsert / append:.2f}")
    console.print(table)


def main() -> None:
    """Measure, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repeat", type=int, default=3)
    chosen = arguments.parse_args()
    with stack_of("upsert") as stack:
        os.environ |= stack.environment() | {"PYTHONPATH": str(ROOT)}
        measured(Bench(stack), chosen.repeat)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
