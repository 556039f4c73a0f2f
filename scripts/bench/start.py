"""What a run costs that has little or nothing to read: `make bench WHAT=start`.

Three runs of 3 records, each its own batch, and three without a backlog. Options of Java stand in
for what can be switched: the second table is measured without the archive of Spark's classes.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
import yaml
from rich.console import Console
from rich.table import Table
from scripts.bench.stack import stack_of
from scripts.bench.usage import Usage, measure
from scripts.demo.flight_data import create_topic, records, replay

from tidemark_local.stack import LocalStack

ROOT = Path(__file__).resolve().parents[2]
REPEATED = 3
SAMPLE_SECONDS = 0.1  # what a process does after the last one is not seen
ROLES = ("driver", "Spark JVM", "Python workers")
WITHOUT_ARCHIVE = {"SPARK_SUBMIT_OPTS": "-Xshare:auto -XX:TieredStopAtLevel=1"}
console = Console(width=110)


class Runs:
    """Runs of regions that have three records each."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._flight = next(records())
        self._folder = Path(tempfile.mkdtemp())

    def measured(self, options: dict[str, str]) -> tuple[Usage, list[float], Usage]:
        """A run of three records, the seconds of its batches, and the run after it."""
        region = f"start_{time.time_ns()}"
        create_topic(self._stack.kafka.bootstrap, region)
        replay(self._stack.kafka.bootstrap, region, [self._flight] * 3)
        file = self._folder / f"{region}.yaml"
        file.write_text(yaml.safe_dump(pipeline(region)))
        little = self._run(file, options)
        return little, self._batches(region), self._run(file, options)

    def _run(self, file: Path, options: dict[str, str]) -> Usage:
        argv = [str(Path(sys.executable).parent / "tidemark"), "run", str(file)]
        env = {**self._stack.environment(), "PYTHONPATH": str(ROOT), **options}
        usage = measure([*argv, "--max-records", "1"], env, {}, str(ROOT), SAMPLE_SECONDS)
        if usage.exit_code:
            raise RuntimeError(f"tidemark run ended with {usage.exit_code}: {usage.words[-500:]}")
        return usage

    def _batches(self, region: str) -> list[float]:
        """Seconds of each batch, from its plan to its publish."""
        with (
            closing(psycopg2.connect(**self._stack.postgres.parameters("warehouse"))) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(
                "SELECT extract(epoch FROM published_at - planned_at) FROM tidemark.batches"
                " WHERE region = %s ORDER BY seq",
                (region,),
            )
            return [float(seconds) for (seconds,) in cursor.fetchall()]


def pipeline(region: str) -> dict[str, Any]:
    """The worked example without its transform, with another topic and target."""
    settings = yaml.safe_load((ROOT / "dags" / "flights.yaml").read_text())
    settings |= {"region": region, "transform": None}
    settings["kafka"] |= {"topics": [region], "group": region}
    settings["target"] |= {"table": f"public.{region}"}
    return settings  # type: ignore[no-any-return]


def main() -> int:
    """Measure, print, and stop what was started."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with stack_of("bench") as stack:
        runs = Runs(stack)
        runs.measured({})  # the ledger is made, the page cache filled
        pairs = [(runs.measured({}), runs.measured(WITHOUT_ARCHIVE)) for _ in range(REPEATED)]
        console.print(table("as installed", [one for one, _ in pairs]))
        console.print(table("without the archive of Spark's classes", [two for _, two in pairs]))
    return 0


def table(title: str, found: Sequence[tuple[Usage, list[float], Usage]]) -> Table:
    """Medians: seconds, and CPU seconds by process."""
    shown = Table(title=f"{title}: medians of {len(found)}, seconds")
    for name in ("", "wall", *(f"CPU: {role}" for role in ROLES)):
        shown.add_column(name, justify="right" if name else "left")
    for name, place in (("run without a backlog", 2), ("run of 3 records", 0)):
        usages: list[Any] = [one[place] for one in found]
        cpu = [median(usage.cpu.get(role, 0.0) for usage in usages) for role in ROLES]
        wall = median(usage.wall for usage in usages)
        shown.add_row(name, f"{wall:.1f}", *(f"{seconds:.1f}" for seconds in cpu))
    for place, name in enumerate(("first batch", "second batch")):
        shown.add_row(name, f"{median(batches[place] for _, batches, _ in found):.2f}")
    return shown


if __name__ == "__main__":
    sys.exit(main())
