"""CPU of a million records more, by process: what a run costs beside its start.

Each path drains one million records and three millions; the start is in both, so the difference is
two millions and nothing else. `make bench WHAT=slope`.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import median

from rich.table import Table
from scripts.bench.paths import SMALL, TRANSFORMS, Peers
from scripts.bench.stack import USUAL, Attempt, Bench, Run, console, stack_of
from scripts.bench.tables import ROLES, titled

FEW, MANY = 3, 9
"""Replays of the flights: 1,010,328 records, and 3,030,984."""
Attempted = Callable[[Peers], Attempt]


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
                less, more = (peers.bench.taken(attempt(peers)) for peers in (few, many))
                found[name].append(slope(less, more, many.bench.records - few.bench.records))
                console.print(f"  {number}: {name}: {sum(found[name][-1].values()):.1f} CPU s")
        console.print(costs(found))
    return 0


def tidemark(transform: str | None) -> Attempted:
    """Tidemark as it is by default, with batches of SMALL."""
    return lambda peers: peers.bench.attempt(SMALL, transform, USUAL)


PATHS = {f"Tidemark, {name or 'none'}": tidemark(of) for name, of in TRANSFORMS.items()}
PATHS["consumer by hand"] = lambda peers: peers.consumer(SMALL)


def slope(less: Run, more: Run, records: int) -> dict[str, float]:
    """CPU seconds of a million records more, by role; `records` is how many more there were."""
    return {
        role: (more.usage.cpu.get(role, 0.0) - less.usage.cpu.get(role, 0.0)) / records * 1e6
        for role in ROLES
    }


def costs(found: dict[str, list[dict[str, float]]]) -> Table:
    """Medians of the rounds."""
    table = titled(f"CPU seconds of a million records more, {SMALL:,} a batch, without the start")
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
