"""A run or a reset in a process of its own, so that a test can kill it, stop it and look at it.

`python -m tests.faults.process run|reset` with the world in the environment. Reader and writer
work in a pool of processes: real Kafka and Postgres, no Spark. Exit codes are the driver's.
"""

import json
import os
import sys
from dataclasses import asdict

from tests.faults.region import WORLD, FaultRegion

from tidemark.errors import TidemarkError


def main(program: str) -> int:
    """Do what the program says; the exit code of its error."""
    region = FaultRegion(**json.loads(os.environ[WORLD]))
    try:
        region.run() if program == "run" else region.reset()
    except TidemarkError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def environment(region: FaultRegion) -> dict[str, str]:
    """What `main` needs to know."""
    return {WORLD: json.dumps(asdict(region))}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
