"""What a run costs that has little or nothing to read: `make bench WHAT=start`.

Three runs of 3 records, each its own batch, and three without a backlog. Options of Java stand in
for what can be switched: the second table is measured without the archive of Spark's classes.
"""

import os
from statistics import median

from rich.table import Table
from scripts.bench.stack import Bench, console, stack_of
from scripts.demo.flight_data import records

REPEATED = 3
WITHOUT_ARCHIVE = {"SPARK_SUBMIT_OPTS": "-Xshare:auto -XX:TieredStopAtLevel=1"}
BATCHES = """
SELECT extract(epoch FROM published_at - planned_at) FROM tidemark.batches
WHERE region = %s ORDER BY seq
"""
Figures = dict[str, float]


def measured(bench: Bench, options: dict[str, str]) -> Figures:
    """Seconds of a run of three records, of its batches, and of the run after it."""
    attempt = bench.attempt()
    attempt.argv.append("--max-records=1")
    attempt.env.update(options)
    first, second = (bench.measured(attempt).usage for _ in range(2))
    batches = [float(seconds) for (seconds,) in bench.ask(BATCHES, attempt.table)]
    return {
        "run without a backlog": second.wall,
        "its CPU": second.cpu,
        "run of 3 records": first.wall,
        "its CPU, too": first.cpu,
        "first batch": batches[0],
        "second batch": batches[1],
    }


def main() -> None:
    """Measure, print, and stop what was started."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    table = Table("medians, seconds", "as installed", "without the archive of Spark's classes")
    with stack_of() as stack:
        bench = Bench(stack, 1, [next(records())] * 3)
        measured(bench, {})  # the ledger is made, the page cache filled
        pairs = [(measured(bench, {}), measured(bench, WITHOUT_ARCHIVE)) for _ in range(REPEATED)]
    for name in pairs[0][0]:
        installed, without = (median(pair[place][name] for pair in pairs) for place in (0, 1))
        table.add_row(name, f"{installed:.2f}", f"{without:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
