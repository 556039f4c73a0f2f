"""CPU of a million records more, by process: what a run costs beside its start.

Each path drains one million records and three millions; the start is in both, so the difference is
two millions and nothing else. `make bench WHAT=slope`.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import median

from rich.table import Table
from scripts.attempt import Attempt, Run
from scripts.bench import Bench, console
from scripts.bench_stack import stack_of
from scripts.bench_tables import ROLES, titled
from scripts.peers import Peers

FEW, MANY = 3, 9
"""Replays of the flights: 1,010,328 records, and 3,030,984."""
SIZE = 50_000
ARROW = "jobs.flights_arrow:transform"
PATHS: dict[str, Callable[[Peers], Attempt]] = {
    f"Tidemark, {SIZE:,}": lambda peers: peers.bench.attempt(SIZE, None, 2),
    f"Tidemark, Arrow, {SIZE:,}": lambda peers: peers.bench.attempt(SIZE, ARROW, 2),
    f"consumer by hand, {SIZE:,}": lambda peers: peers.consumer(SIZE),
}


def main() -> int:
    """Measure in turns, print, and stop what was started."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--repeat", type=int, default=3, help="rounds; each takes every path")
    repeat = arguments.parse_args().repeat
    with stack_of("slope") as stack:
        few, many = (Peers(Bench(stack, times)) for times in (FEW, MANY))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in PATHS}
        for number in range(1, repeat + 1):
            for name, attempt in PATHS.items():
                more = many.bench.records - few.bench.records
                found[name].append(slope(measured(few, attempt), measured(many, attempt), more))
                console.print(f"  {number}: {name}: {sum(found[name][-1].values()):.1f} CPU s")
        console.print(costs(found))
    return 0


def measured(peers: Peers, attempt: Callable[[Peers], Attempt]) -> Run:
    """One run of the path over the whole topic; its rows are gone afterwards."""
    peers.bench.settle()
    one = attempt(peers)
    try:
        return peers.bench.measured(one)
    finally:
        peers.bench.erase(one)


def slope(few: Run, many: Run, records: int) -> dict[str, float]:
    """CPU seconds of a million records more, by role."""
    return {
        role: (many.usage.cpu.get(role, 0.0) - few.usage.cpu.get(role, 0.0)) / records * 1e6
        for role in ROLES
    }


def costs(found: dict[str, list[dict[str, float]]]) -> Table:
    """Medians of the rounds."""
    table = titled("CPU seconds of a million records more, without the start")
    for name in (*ROLES.values(), "all"):
        table.add_column(name, justify="right")
    for path, rounds in found.items():
        roles = [median(one[role] for one in rounds) for role in ROLES]
        whole = median(sum(one.values()) for one in rounds)
        table.add_row(path, *(f"{seconds:.1f}" for seconds in (*roles, whole)))
    return table


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
