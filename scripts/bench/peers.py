"""Rows per second, CPU, memory and SIGKILL: Tidemark, and what one would write instead of it.

The paths take turns, as machines change their speed: the ratios are what to look at.
"""

import argparse
import os
import signal
import sys

from scripts.bench.memory import memory
from scripts.bench.peer_attempts import Peers
from scripts.bench.rounds import Rounds
from scripts.bench.stack import stack_of
from scripts.bench.whole_runs import Bench, console

MILLION = 3
"""Replays of the flights that make 1,010,328 records."""


def main() -> int:
    """Measure, print, and stop what was started."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=2, help="replays of 336,776 flights")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; each takes every path once")
    parser.add_argument("--only", default="", metavar="WORD", help="paths with it in their names")
    parser.add_argument("--memory", action="store_true", help="Tidemark's memory, 1 and 10 million")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.print(f"load before: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    with stack_of("bench") as stack:
        console.print("replaying the flights …")
        bench = Bench(stack, MILLION if options.memory else options.times)
        if options.memory:
            console.print(memory(bench))
        else:
            rounds = Rounds(Peers(bench), options.only)
            try:
                rounds.take(options.repeat)
                rounds.kill()
            finally:
                rounds.show()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
