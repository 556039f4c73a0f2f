"""What the bench prints: one table for each question. Medians, with the least and the most."""

from collections.abc import Mapping, Sequence
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table
from scripts.bench.paths import Path
from scripts.bench.stack import Killed, Run

ROLES = {
    "driver": "driver",
    "Spark JVM": "JVM",
    "Python workers": "workers",
    "kafka": "kafka",
    "postgres": "postgres",
}
"""Processes, and their columns."""
Runs = Mapping[Path, Sequence[Run]]


def speeds(runs: Runs, records: int) -> Table:
    """Rows per second, and how Tidemark's compare, round by round."""
    table = titled(f"{records:,} records: medians of the rounds (least-most)")
    for name in ("process s", "rows/s", "Tidemark's rows/s ÷ this path's"):
        table.add_column(name, justify="right")
    for path, found in runs.items():
        rates = [records / run.work for run in found]
        whole = f"{median(run.usage.wall for run in found):.1f}"
        table.add_row(str(path), whole, spread(rates, ",.0f"), spread(ratios(path, runs), ".2f"))
    table.caption = (
        "process s: with the start of Python, Java and Spark. Tidemark's rows/s: as a file without"
        " settings of batches has it, in the same round, with the same transform. Above 1 Tidemark"
        " is faster; of Tidemark, again the ratio tells how far two equal paths differ"
    )
    return table


def ratios(path: Path, runs: Runs) -> list[float]:
    """Tidemark's rows per second ÷ this path's, in each round; nothing for what is divided."""
    for other, found in runs.items():
        if other.is_default and other.transform == path.transform and other != path:
            return [this.work / ours.work for ours, this in zip(found, runs[path], strict=False)]
    return []


def costs(runs: Runs, records: int) -> Table:
    """CPU seconds per million rows by process, and peak memory."""
    table = titled("CPU seconds per million rows, of whole processes; peak memory")
    for name in (*ROLES.values(), "all (least-most)", "peak MB"):
        table.add_column(name, justify="right")
    for path, found in runs.items():
        cpu = [median(run.usage.cpu.get(role, 0.0) for run in found) for role in ROLES]
        whole = [sum(run.usage.cpu.values()) / records * 1e6 for run in found]
        peaks = [run.usage.peak_total_mb for run in found]
        by_role = [f"{seconds / records * 1e6:.1f}" for seconds in cpu]
        table.add_row(str(path), *by_role, spread(whole, ".0f"), f"{median(peaks):,.0f}")
    return table


def deaths(killed: Mapping[Path, Killed]) -> Table:
    """What SIGKILL did."""
    table = titled("SIGKILL in the middle of the work, then started again")
    for name in ("rows visible when killed", "rows lost", "rows doubled"):
        table.add_column(name, justify="right")
    for path, found in killed.items():
        table.add_row(str(path), f"{found.visible:,}", f"{found.lost:,}", f"{found.doubled:,}")
    return table


def titled(title: str) -> Table:
    """A table with a row for each path."""
    table = Table(title=title, box=SIMPLE_HEAD)
    table.add_column("path, transform, records a batch", no_wrap=True)
    return table


def spread(values: Sequence[float], form: str) -> str:
    """Median, least and most."""
    if not values:
        return "-"
    if len(values) == 1:
        return format(values[0], form)
    return f"{median(values):{form}} ({min(values):{form}}-{max(values):{form}})"
