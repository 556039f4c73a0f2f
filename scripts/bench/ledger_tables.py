"""The tables of what the ledger's work takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from statistics import linear_regression

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Took:
    """What a step took."""

    seconds: float
    cpu: float
    """CPU seconds of the driver and its sessions of Postgres."""
    touched: float
    """Rows of tables read or written, and index entries read."""


Steps = Mapping[str, Took]
Widths = Mapping[tuple[int, int], Steps]
"""Steps by partitions and members."""
Value = Callable[[Took], float]


def milliseconds(took: Took) -> float:
    """The time, at least one microsecond."""
    return max(took.seconds * 1000, 0.001)


def cpu_milliseconds(took: Took) -> float:
    """The CPU time; the kernel counts it in hundredths of a second."""
    return max(took.cpu * 1000, 0.001)


def touched(took: Took) -> float:
    """The rows, at least one."""
    return max(took.touched, 1.0)


def slopes(by_partitions: Mapping[int, Steps], value: Value) -> dict[str, float]:
    """By step, how a value grows with the partitions: the slope on log-log, 1 is linear."""
    widths = sorted(by_partitions)
    return {
        name: linear_regression(
            [log(width) for width in widths],
            [log(value(by_partitions[width][name])) for width in widths],
        ).slope
        for name in by_partitions[widths[0]]
    }


def table_of(title: str, found: Widths, value: Value, slope: Mapping[str, float]) -> Table:
    """One value of each step by width, and how it grows with the partitions."""
    table = Table(title=title)
    table.add_column("partitions\nmembers")
    for partitions, members in found:
        table.add_column(f"{partitions:,}\n{members:,}", justify="right")
    table.add_column("slope", justify="right")
    for name in next(iter(found.values())):
        values = [f"{value(took[name]):,.0f}" if name in took else "-" for took in found.values()]
        table.add_row(name, *values, f"{slope[name]:.2f}")
    return table


def table_of_past(took: Steps, title: str) -> Table:
    """Seconds and rows of each step."""
    table = Table(title=title)
    for name in ("what", "seconds", "rows touched"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for what, one in took.items():
        table.add_row(what, f"{one.seconds:.2f}", f"{one.touched:,.0f}")
    return table
