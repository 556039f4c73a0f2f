"""A worked example from its topic to the proof: `make demo`, or `make demo EXAMPLE=orders_cdc`.

Starts the local stack; what it started goes on running.
"""

import argparse
import os
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also without -m

from scripts.demo.example import ROOT, tell
from scripts.demo.flights import Flights
from scripts.demo.orders_cdc import OrdersCdc
from scripts.demo.payments_avro import PaymentsAvro
from scripts.demo.steps import console

from tidemark.errors import TidemarkError
from tidemark_local.stack import LocalStack

STATE = ROOT / ".tidemark"
EXAMPLES = {one.name: one for one in (Flights, OrdersCdc, PaymentsAvro)}


def main() -> int:
    """Tell the story; 0 if the proof holds."""
    words = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser("python -m scripts.demo", description=words)
    parser.add_argument("example", nargs="?", default="flights", choices=EXAMPLES)
    chosen = parser.parse_args()
    stack = LocalStack(STATE, ROOT, tell=lambda part, text: console.print(f"  {part}: {text}"))
    return 0 if tell(stack, EXAMPLES[chosen.example]()) else 1


if __name__ == "__main__":
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        console.print("interrupted; make down stops what still runs")
        sys.exit(130)
    except (TidemarkError, RuntimeError, TimeoutError, OSError, psycopg2.Error) as error:
        console.print(f"[red]failed:[/] {error}", soft_wrap=True)
        more = f"{STATE.name}/logs says more; make demo begins again, make down stops what runs"
        console.print(more, soft_wrap=True)
        sys.exit(1)
