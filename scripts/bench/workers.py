"""Two workers of a standalone cluster beside one: `make bench WHAT=workers`.

This machine has fewer cores than two workers, Postgres, Kafka and the driver need. So each worker
is given the same share of a core by its control group (cgroup v1, which needs root), and the others
have the rest: what is compared is how the drain grows with its workers, not how fast it is.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from scripts.bench.small_batches import ROOT, Bench, Cost
from scripts.bench.stack import stack_of

STATE = ROOT / ".tidemark" / "workers"
GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD = 100_000
"""Microseconds of which a share is given."""
TRANSFORMS = {"in DataFrames": "jobs.flights:transform", "in Arrow": "jobs.flights_arrow:transform"}
BATCHES = 4
TIDEMARK = (sys.executable, "-m", "tidemark")
console = Console(width=100)


class Workers:
    """Runs of one stack on one or two of its workers."""

    def __init__(self, bench: Bench, size: int) -> None:
        self.bench, self.size = bench, size
        self.topic = bench.topic(8, size * BATCHES)

    def cost(self, transform: str, workers: int) -> Cost:
        """Drain the topic in a driver of its own."""
        region = f"workers_{time.time_ns()}"
        file = self.bench.file(region, self.topic, transform)
        defaults = STATE / "conf" / "spark-defaults.conf"
        defaults.parent.mkdir(exist_ok=True)
        defaults.write_text(f"spark.cores.max {workers}\n")
        # The run's own words are of no interest unless it fails.
        found = subprocess.run(  # noqa: S603
            [*TIDEMARK, "run", file, "--max-records", str(self.size)],
            env=os.environ | {"SPARK_CONF_DIR": str(defaults.parent)},
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if found.returncode:
            raise RuntimeError(found.stdout + found.stderr)
        planned = self.bench.planned(region)
        return Cost(self.size, [(after - one).total_seconds() for one, after in pairwise(planned)])


@contextmanager
def limited(pids: list[int | None], share: float) -> Iterator[None]:
    """Each process, and what it starts from now on, has this share of a core."""
    groups = [GROUPS / f"tidemark_worker_{pid}" for pid in pids]
    try:
        for group, pid in zip(groups, pids, strict=True):
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD * share)))
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group in groups:
            for held in (group / "cgroup.procs").read_text().split():
                (GROUPS / "cgroup.procs").write_text(held)
            group.rmdir()


def measured(workers: Workers, repeat: int) -> None:
    """The runs in turns, and their table."""
    found: dict[tuple[str, int], list[float]] = {}
    for _, name, many in product(range(repeat), TRANSFORMS, (1, 2)):
        cost = workers.cost(TRANSFORMS[name], many)
        found.setdefault((name, many), []).append(cost.speed)
        console.print(f"  transform {name}, {many} workers: {cost.speed:,.0f} records/s")
    table = Table("transform", title="Records a second on a standalone cluster")
    for name in ("one worker", "two workers", "two ÷ one"):
        table.add_column(name, justify="right")
    for name in TRANSFORMS:
        one, two = (median(found[name, many]) for many in (1, 2))
        table.add_row(name, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}")
    console.print(table)


def main() -> None:
    """Measure, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repeat", type=int, default=2)
    arguments.add_argument("--share", type=float, default=0.4, help="of a core, for each worker")
    arguments.add_argument("--records", type=int, default=100_000, help="a batch")
    chosen = arguments.parse_args()
    if not os.access(GROUPS / "cgroup.procs", os.W_OK):
        sys.exit(f"{GROUPS}: no control groups of version 1 that this user may change")
    with stack_of("workers", ["kafka", "postgres", "spark"]) as stack:
        os.environ |= stack.environment() | {"PYTHONPATH": str(ROOT)}
        with limited(stack.spark.pids[1:], chosen.share):
            measured(Workers(Bench(stack), chosen.records), chosen.repeat)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
