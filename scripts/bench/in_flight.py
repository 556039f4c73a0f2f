"""One batch in flight and two, side by side: Postgres on this machine, and some milliseconds away.

The ratios are what to look at. The runs of a row are interleaved, as machines change their speed.
"""

import argparse
import sys
from statistics import median
from typing import Any

from rich.table import Table
from scripts.bench.slow_link import slow_link
from scripts.bench.stack import Bench, console, stack_of

from tidemark_local.stack import connections

MILLISECONDS = (0, 5)
SIZES = (5_000, 50_000)


class InFlight(Bench):
    """The same topic, drained with so many batches in flight over such a link."""

    in_flight = 1
    port = 0

    def pipeline(self, region: str, topic: str, transform: str | None) -> dict[str, Any]:
        """The worked example without its transform."""
        settings = super().pipeline(region, topic, transform)
        settings["batch"] = {"in_flight": self.in_flight}
        return settings

    def environment(self) -> dict[str, str]:
        """The connections; Postgres is at the end of the link."""
        return connections(self.stack.kafka.bootstrap, {**self.postgres, "port": self.port})

    def seconds(self, size: int, in_flight: int) -> float:
        """From the second plan to the last publish: the first batch pays for Spark's first job."""
        self.in_flight = in_flight
        run = self.tidemark(size)
        [(seconds,)] = self.ask(
            "SELECT extract(epoch FROM max(published_at) - min(published_at))"
            " FROM tidemark.batches WHERE region = %s",
            run.table,
        )
        return float(seconds)


def main() -> int:
    """Measure, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeat", type=int, default=3, help="runs of each kind")
    repeat = arguments.parse_args().repeat
    with stack_of("bench") as stack:
        bench = InFlight(stack, 1)
        table = Table(title=f"{bench.records:,} flights, seconds after the first batch")
        for name in ("records a batch", "Postgres", "one in flight", "two", "one / two"):
            table.add_column(name, justify="right")
        for milliseconds in MILLISECONDS:
            with slow_link(stack.postgres.port, milliseconds) as bench.port:
                for size in SIZES:
                    table.add_row(f"{size:,}", f"+{milliseconds} ms", *row(bench, size, repeat))
        console.print(table)
    return 0


def row(bench: InFlight, size: int, repeat: int) -> tuple[str, str, str]:
    """Medians of interleaved runs, with the fastest and the slowest, and their ratio."""
    one, two = [], []
    for _ in range(repeat):
        one.append(bench.seconds(size, 1))
        two.append(bench.seconds(size, 2))
        console.print(f"  {size:,} a batch: one in flight {one[-1]:.1f} s, two {two[-1]:.1f} s")
    texts = [f"{median(s):.1f} ({min(s):.1f}-{max(s):.1f})" for s in (one, two)]
    return texts[0], texts[1], f"{median(one) / median(two):.2f} x"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
