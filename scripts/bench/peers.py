"""Rows per second, CPU, memory and SIGKILL: Tidemark, and what one would write instead of it.

The paths take turns, as machines change their speed: the ratios are what to look at.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TypeVar

from psycopg2 import sql
from rich.table import Table
from scripts.bench.paths import Path, Peers, paths
from scripts.bench.stack import MILLION, ROOT, Attempt, Bench, Killed, Run, console, stack_of
from scripts.bench.tables import costs, deaths, speeds
from scripts.bench.usage import end_tree

LOOK_SECONDS = 0.05
"""Between looks at the rows of a path that is to be killed."""
TENFOLD = 9
"""Times that the records of the first peak are there once more for the others."""
MOST = 1.2
"""Times the first peak that the others may be."""
Result = TypeVar("Result")


def main() -> int:
    """Measure, print, and stop what was started."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=4, help="replays of 336,776 flights")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; each takes every path once")
    parser.add_argument("--only", default="", metavar="WORD", help="paths with it in their names")
    parser.add_argument("--memory", action="store_true", help="Tidemark's memory, 1 and 10 million")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.print(f"load before: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    with stack_of("bench") as stack:
        console.print("replaying the flights …")
        bench = Bench(stack, MILLION if options.memory else options.times)
        if options.memory:
            console.print(memory(bench))
        else:
            rounds = Rounds(Peers(bench), options.only)
            try:
                rounds.take(options.repeat)
                rounds.kill()
            finally:
                rounds.show()
    return 0


class Rounds:
    """What was measured so far."""

    def __init__(self, peers: Peers, only: str = "") -> None:
        self.peers = peers
        self.bench = peers.bench
        self.runs: dict[Path, list[Run]] = {one: [] for one in paths(peers) if only in str(one)}
        self.killed: dict[Path, Killed] = {}
        self.left_out: dict[str, str] = {}

    def take(self, repeat: int) -> None:
        """Each path once, and again: a machine that grows slower does so for all."""
        for number in range(1, repeat + 1):
            for path in list(self.runs):
                if run := self._tried(path, str(path), partial(self._run, path)):
                    self.runs[path].append(run)
                    rate = self.bench.records / run.work
                    whole = run.usage.wall
                    console.print(f"  {number}: {path}: {rate:,.0f} rows/s, {whole:.0f} s in all")
                else:
                    del self.runs[path]

    def kill(self) -> None:
        """One path of each kind, in the middle of its work; then it is started again."""
        for path in [path for path in self.runs if path.kill]:
            found = self._tried(path, f"{path}, killed", partial(self._kill, path))
            if found:
                self.killed[path] = found
                console.print(f"  killed: {path}: {found.lost:,} lost, {found.doubled:,} doubled")

    def show(self) -> None:
        """All tables, what was left out, and how busy the machine was with other work."""
        taken = {path: runs for path, runs in self.runs.items() if runs}
        console.print(speeds(taken, self.bench.records), costs(taken, self.bench.records))
        console.print(deaths(self.killed))
        others = [run.usage.others / run.usage.wall for runs in taken.values() for run in runs]
        if others:
            console.print(
                f"cores that other processes used meanwhile: {median(others):.2f}"
                f" ({min(others):.2f}-{max(others):.2f})"
            )
        for name, reason in self.left_out.items():
            console.print(f"left out: {name}: {reason}")

    def _run(self, path: Path) -> Run:
        return self.bench.taken(path.attempt())

    def _kill(self, path: Path) -> Killed:
        attempt = path.attempt()
        try:
            return killed(self.bench, attempt)
        finally:
            self.bench.erase(attempt)

    def _tried(self, path: Path, name: str, what: Callable[[], Result]) -> Result | None:
        try:
            return what()
        except Exception as error:  # the other paths go on
            self._leave_out(name, f"{type(error).__name__}: {error}")
            return None

    def _leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        console.print(f"  left out: {name}: {reason}")


def killed(bench: Bench, attempt: Attempt, at: float = 0.5) -> Killed:
    """Killed once this share of the rows is visible, then run to its end.

    Raises:
        RuntimeError: it ended before, or it does not end well when started again.
    """
    process = subprocess.Popen(  # noqa: S603
        attempt.argv,
        env={**os.environ, **attempt.env},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while process.poll() is None and bench.rows(attempt.table) < at * bench.records:
            time.sleep(LOOK_SECONDS)
        ended = process.poll() is not None
    finally:
        end_tree(process.pid)
        process.wait()
    if ended:
        raise RuntimeError(f"it ended with {process.returncode} before it was killed")
    visible = bench.rows(attempt.table)
    bench.measured(attempt)
    return Killed(visible, *lost_and_doubled(bench, attempt.table))


def lost_and_doubled(bench: Bench, table: str) -> tuple[int, int]:
    """Told by partition and offset, which each row carries."""
    offsets = sql.SQL("SELECT count(*), count(DISTINCT (kafka_partition, kafka_offset)) FROM {}")
    [(rows, different)] = bench.ask(offsets.format(sql.Identifier(table)))
    return bench.in_kafka() - different, rows - different


def memory(bench: Bench) -> Table:
    """Peaks of a million records, of ten in batches of a million, and of ten in one batch."""
    table = Table(title="Tidemark's peak memory, without a transform")
    for name in ("records", "records a batch", "rows/s", "peak MB", "this peak ÷ the first"):
        table.add_column(name, justify="right")
    first = peak(bench, bench.records, table, None)
    batch = bench.records
    for _ in range(TENFOLD):
        bench.add(batch // len(bench.flights))
    ratios = [peak(bench, size, table, first) / first for size in (batch, bench.records)]
    verdict = "at most" if max(ratios) <= MOST else "NOT at most"
    table.caption = f"{verdict} {MOST} times"
    return table


def peak(bench: Bench, batch: int, table: Table, first: float | None) -> float:
    """MB of all processes at one moment."""
    run = bench.taken(bench.attempt(batch))
    most = run.usage.peak_total_mb
    rate = bench.records / run.work
    ratio = f"{most / first:.2f}" if first else "-"
    row = (f"{bench.records:,}", f"{batch:,}", f"{rate:,.0f}", f"{most:,.0f}", ratio)
    console.print(f"  {row[0]} records, {row[1]} a batch: {row[3]} MB")
    table.add_row(*row)
    return most


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
