"""Rows per second, CPU, memory and SIGKILL: Tidemark, and what one would write instead of it.

The paths take turns, as machines change their speed: the ratios are what to look at. Figures are
medians of the rounds, with the least and the most.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from psycopg2 import sql
from rich.box import SIMPLE_HEAD
from rich.table import Table
from scripts.bench.paths import Path, paths
from scripts.bench.stack import MILLION, Attempt, Bench, Run, console, stack_of
from scripts.bench.usage import ROOT, end_tree

LOOK_SECONDS = 0.05
"""Between looks at the rows of a path that is to be killed."""
TENFOLD = 9
"""Times that the records of the first peak are there once more for the others."""
Result = TypeVar("Result")


def main() -> int:
    """Measure, print, and stop what was started."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=4, help="replays of 336,776 flights")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; each takes every path once")
    parser.add_argument("--only", default="", metavar="WORD", help="paths with it in their names")
    parser.add_argument("--memory", action="store_true", help="Tidemark's memory, 1 and 10 million")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.print(f"load before: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    with stack_of() as stack:
        console.print("replaying the flights …")
        if options.memory:
            console.print(memory(Bench(stack, MILLION)))
        else:
            compare(Bench(stack, options.times), options.only, options.repeat)
    return 0


def compare(bench: Bench, only: str, repeat: int) -> None:
    """Take each path once, and again; kill one of each kind. Show what there is, come what may."""
    runs: dict[Path, list[Run]] = {path: [] for path in paths(bench) if only in path.name}
    deaths = table_of("SIGKILL in the middle of the work", "visible when killed", "lost", "doubled")
    left_out: set[Path] = set()

    def tried(path: Path, what: Callable[[Bench, Attempt], Result]) -> Result | None:
        try:
            return None if path in left_out else what(bench, path.attempt())
        except Exception as error:  # the other paths go on
            console.print(f"  left out: {path.name}: {type(error).__name__}: {error}")
            left_out.add(path)
            return None

    try:
        for path in [*runs] * repeat:
            if run := tried(path, Bench.taken):
                runs[path].append(run)
                console.print(f"  {path.name}: {bench.records / run.work:,.0f} rows/s")
        for path in runs:
            if path.kill and (found := tried(path, killed)):
                deaths.add_row(path.name, *(f"{count:,}" for count in found))
    finally:
        console.print(speeds(runs, bench.records), deaths)


def killed(bench: Bench, attempt: Attempt, at: float = 0.5) -> tuple[int, int, int]:
    """Kill it once this share of the rows is visible, then run it to its end.

    The rows that were visible, that are lost and doubled at last: each carries its partition and
    offset.

    Raises:
        RuntimeError: it ended before, or it does not end well when started again.
    """
    quiet = subprocess.DEVNULL
    env = {**os.environ, **attempt.env}
    process = subprocess.Popen(attempt.argv, env=env, cwd=ROOT, stdout=quiet, stderr=quiet)  # noqa: S603
    try:
        while process.poll() is None and bench.rows(attempt.table) < at * bench.records:
            time.sleep(LOOK_SECONDS)
        if process.poll() is not None:
            raise RuntimeError(f"it ended with {process.returncode} before it was killed")
        end_tree(process.pid)
        process.wait()
        visible = bench.rows(attempt.table)
        bench.measured(attempt)
        offsets = sql.SQL(
            "SELECT count(*), count(DISTINCT (kafka_partition, kafka_offset)) FROM {}"
        )
        [(rows, different)] = bench.ask(offsets.format(sql.Identifier(attempt.table)))
        return visible, bench.records - different, rows - different
    finally:
        end_tree(process.pid)
        bench.erase(attempt)


def speeds(runs: Mapping[Path, Sequence[Run]], records: int) -> Table:
    """Rows per second, how Tidemark's compare, and what each path takes."""
    table = table_of(
        f"{records:,} records", "process s", "rows/s", "ratio", "CPU s a million", "peak MB"
    )
    table.caption = (
        "process s: with the start of Python, Java and Spark. ratio: Tidemark's rows/s as by"
        " default, with the same transform, in the same round, ÷ this path's: above 1 Tidemark is"
        " faster. CPU and memory: of all its processes, CPU also of Kafka and Postgres"
    )
    by_name = {path.name: found for path, found in runs.items()}
    for path, found in runs.items():
        ours = by_name.get(path.beside, []) if path.name != path.beside else []
        table.add_row(
            path.name,
            format(median(run.usage.wall for run in found), ".1f") if found else "-",
            spread([records / run.work for run in found], ",.0f"),
            spread([run.work / our.work for our, run in zip(ours, found, strict=False)], ".2f"),
            spread([run.usage.cpu / records * 1e6 for run in found], ".0f"),
            format(median(run.usage.peak_mb for run in found), ",.0f") if found else "-",
        )
    return table


def table_of(title: str, *columns: str) -> Table:
    """A table with a row for each path."""
    table = Table("path, transform, records a batch", title=title, box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def spread(values: Sequence[float], form: str) -> str:
    """Median, least and most."""
    if len(values) < 2:
        return format(values[0], form) if values else "-"
    return f"{median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def memory(bench: Bench) -> Table:
    """Peaks of a million records, of ten in batches of a million, and of ten in one batch."""
    table = table_of("Tidemark's peak memory, without a transform", "peak MB", "÷ the first")
    peaks: list[float] = []

    def take(batch: int) -> None:
        peaks.append(bench.taken(bench.attempt(batch)).usage.peak_mb)
        name = f"{bench.records:,} records, {batch:,} a batch"
        table.add_row(name, f"{peaks[-1]:,.0f}", f"{peaks[-1] / peaks[0]:.2f}")

    take(million := bench.records)
    for _ in range(TENFOLD):
        bench.add(MILLION)
    take(million)
    take(bench.records)
    return table


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
