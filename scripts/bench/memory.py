"""Whether Tidemark's memory grows with what it reads: a million records, and ten million."""

from rich.table import Table
from scripts.bench.whole_runs import Bench, console

TENFOLD = 9
MOST = 1.2


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
