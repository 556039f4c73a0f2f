"""Upserts beside appends of the same rows: `make bench WHAT=upsert`.

A million flights with 100,000 keys, and with 1,000,000, in turns. Both tables get the same columns;
only the upserted one has a primary key.
"""

import argparse
from statistics import median

from rich.table import Table
from scripts.bench.stack import MILLION, Bench, console, stack_of

BATCH = 250_000
KEYS = {
    "100,000": "scripts.demo.flight_data:of_100_000",
    "1,000,000": "scripts.demo.flight_data:of_1_000_000",
}


def ratios(bench: Bench, repeat: int) -> Table:
    """Rows a second of runs in turns; fewer rows arrive than there are records."""
    append: dict[str, list[float]] = {keys: [] for keys in KEYS}
    upsert: dict[str, list[float]] = {keys: [] for keys in KEYS}
    for _ in range(repeat):
        for keys, transform in KEYS.items():
            for found, target in ((append, {}), (upsert, {"mode": "upsert", "key": ["id"]})):
                run = bench.taken(bench.attempt(BATCH, transform, target=target), of_all=False)
                found[keys].append(bench.records / run.work)
                console.print(f"  {target or 'append'}, {keys} keys: {found[keys][-1]:,.0f} rows/s")
    table = Table("keys", "append", "upsert", "upsert ÷ append", title="rows a second")
    for keys in KEYS:
        one, other = median(append[keys]), median(upsert[keys])
        table.add_row(keys, f"{one:,.0f}", f"{other:,.0f}", f"{other / one:.2f}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with stack_of() as stack:
        console.print(ratios(Bench(stack, MILLION), options.repeat))
