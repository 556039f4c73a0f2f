"""Break Tidemark at random for some minutes, then compare what is there with what was sent.

It has a Kafka and a Postgres of its own. The exit code is 1 if anything was wrong.
"""

import argparse
import sys
from pathlib import Path
from time import monotonic, time

from tests.torture.tally import Tally
from tests.torture.torture import KINDS, Torture

STATE = Path(__file__).resolve().parents[2] / ".tidemark"


def main() -> int:
    """Torture, and print the tables."""
    asked, began = _arguments(), monotonic()

    def tell(line: str) -> None:
        print(f"{monotonic() - began:6.0f} s  {line}", flush=True)

    tell(f"seed {asked.seed}, {asked.minutes:g} minutes of {', '.join(asked.mix)}")
    tally = Tally(tell)
    Torture(STATE / "torture", tuple(asked.mix), asked.seed, tally).run(asked.minutes * 60)
    print("", *tally.report(), sep="\n")
    return 1 if tally.wrong else 0


def _mix(text: str) -> list[str]:
    kinds = text.split(",")
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"one or more of {','.join(KINDS)}")
    return kinds


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="20 by default")
    parser.add_argument("--seed", type=int, default=int(time()), help="of all choices")
    parser.add_argument(
        "--mix", type=_mix, default=list(KINDS), help=f"kinds of regions: {','.join(KINDS)}"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
