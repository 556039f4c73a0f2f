"""A run or a reset in a process of its own, so that a test can kill it, stop it and look at it.

`python -m tests.faults.process PROGRAM` with the world in the environment: run, retry, member,
reset or rewind. Reader and writer work in a pool of processes: real Kafka and Postgres, no Spark.
Exit codes are the driver's.
"""

import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.region import FaultRegion

WORLD = "FAULT_REGION"
"""The region, as JSON."""
LIBRARY = "FAULT_LIBRARY"
"""Where the package under test must come from."""


PROJECT = Path(__file__).resolve().parents[2]


def main(program: str) -> int:
    """Do what the program says; the exit code of its error.

    Imports stand in here: each worker of the pool imports this module too, and needs none of them.
    """
    from tests.faults.region import FaultRegion
    from tests.support.pool import pool_executor

    import tidemark
    from tidemark.errors import TidemarkError

    region = FaultRegion(**json.loads(os.environ[WORLD]))
    assert Path(tidemark.__file__).is_relative_to(os.environ[LIBRARY]), tidemark.__file__
    try:
        {
            "run": partial(region.run, pool_executor),
            "retry": partial(region.retry, pool_executor),
            "member": partial(region.member, pool_executor),
            "reset": region.reset,
            "rewind": region.rewind,
        }[program]()
    except TidemarkError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def environment(region: "FaultRegion", library: Path) -> dict[str, str]:
    """What `main` needs to know, and the package that it shall import."""
    return {
        WORLD: json.dumps(asdict(region)),
        LIBRARY: str(library),
        "PYTHONPATH": os.pathsep.join([str(library), str(PROJECT)]),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
