"""Upserts beside appends of the same rows: `make bench WHAT=upsert`.

A million flights with 100,000 keys, and with 1,000,000, in turns. Both tables get the same columns;
only the upserted one has a primary key.
"""

import argparse
import sys
from itertools import product
from statistics import median
from typing import Any

from rich.table import Table
from scripts.bench.stack import MILLION, Bench, console, stack_of

BATCH = 250_000
KEYS = {
    "100,000": "scripts.demo.flight_data:of_100_000",
    "1,000,000": "scripts.demo.flight_data:of_1_000_000",
}
MODES: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"mode": "upsert", "key": ["id"]}}


def speed(bench: Bench, keys: str, mode: str) -> float:
    """Rows a second of one run; fewer arrive than there are records."""
    attempt = bench.attempt(BATCH, KEYS[keys], target=MODES[mode])
    bench.settle()
    try:
        return bench.records / bench.measured(attempt).work
    finally:
        bench.erase(attempt)


def measured(bench: Bench, repeat: int) -> Table:
    """Rows a second of runs in turns."""
    found: dict[tuple[str, str], list[float]] = {}
    for _, keys, mode in product(range(repeat), KEYS, MODES):
        found.setdefault((keys, mode), []).append(speed(bench, keys, mode))
        console.print(f"  {mode}, {keys} keys: {found[keys, mode][-1]:,.0f} rows/s")
    table = Table("keys", title=f"{bench.records:,} records, {BATCH:,} a batch, rows a second")
    for name in ("append", "upsert", "upsert ÷ append"):
        table.add_column(name, justify="right")
    for keys in KEYS:
        append, upsert = (median(found[keys, mode]) for mode in MODES)
        table.add_row(keys, f"{append:,.0f}", f"{upsert:,.0f}", f"{upsert / append:.2f}")
    return table


def main() -> int:
    """Measure, print, and stop what was started."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with stack_of("upsert") as stack:
        console.print(measured(Bench(stack, MILLION), options.repeat))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
