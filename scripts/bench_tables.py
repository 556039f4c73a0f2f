"""What the bench prints: one table for each question."""

from dataclasses import dataclass

from rich.table import Table
from usage import Usage

ROLES = ("driver", "Spark JVM", "Python workers")


@dataclass(frozen=True, slots=True)
class Run:
    """One path, measured: the table it filled, seconds of work, and what its processes cost."""

    table: str
    work: float
    usage: Usage | None = None


def comparison(runs: dict[str, Run], records: int, title: str) -> Table:
    """Rows per second and the ratios."""
    table = Table(title=title)
    for name in ("path", "work s", "rows/s", "process s", "Tidemark is"):
        table.add_column(name, justify="left" if name == "path" else "right")
    ours = next(iter(runs.values()))
    for name, run in runs.items():
        process = f"{run.usage.wall:.1f}" if run.usage else "-"
        ratio = "-" if run is ours else f"{run.work / ours.work:.2f} x"
        table.add_row(name, f"{run.work:.2f}", f"{records / run.work:,.0f}", process, ratio)
    return table


def cpu(runs: dict[str, Run], records: int) -> Table:
    """CPU seconds per million rows by process, and peak memory."""
    table = Table(title="CPU seconds per million rows (whole process); peak memory in MB")
    roles = [*ROLES, "kafka", "postgres"]
    for name in ("path", *roles, "peak MB"):
        table.add_column(name, justify="left" if name == "path" else "right")
    for name, run in runs.items():
        if run.usage:
            seconds = [f"{run.usage.cpu.get(role, 0) / records * 1e6:.1f}" for role in roles]
            table.add_row(name, *seconds, f"{run.usage.peak_total_mb:,.0f}")
    return table


def curve(sizes: dict[int, Run], records: int) -> Table:
    """What the batch size does."""
    table = Table(title="the batch size")
    for name in ("records a batch", "rows/s", "peak MB, driver", "JVM", "Python workers"):
        table.add_column(name, justify="right")
    for size, run in sizes.items():
        peaks = run.usage.peak_mb if run.usage else {}
        memory = [f"{peaks.get(role, 0):,.0f}" for role in ROLES]
        table.add_row(f"{size:,}", f"{records / run.work:,.0f}", *memory)
    return table
