"""A run or a reset in a process of its own, so that a test can kill it, stop it and look at it.

Programs are run, retry, member, reset, dry run, rewind, withhold and replay. Reader and writer work
in a pool of processes: real Kafka and Postgres, no Spark. Exit codes are the driver's.

What a program imports takes seconds. So a server, which has imported it and does nothing else,
forks each of them, and a program forks its pool before it has any client.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.faults.region import FaultRegion
from tests.faults.seeded import NOT_PLANTED, Seed
from tests.support.pool import fork_workers, pool_executor

import tidemark
from tidemark.errors import TidemarkError

PROJECT = Path(__file__).resolve().parents[2]

FORKED_WORKERS = 4
"""A pool's two, and two for tasks that are run again."""


def forked(
    program: str, region: FaultRegion, failpoint: str, seed: Seed | None, words: str
) -> ForkServerProcess:
    """The program runs in the region, with a seeded bug or none; its words go into that file."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_begin, args=(program, region, failpoint, seed, words))
    process.start()
    return process


def _begin(
    program: str, region: FaultRegion, failpoint: str, seed: Seed | None, words: str
) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.dup2(os.open(words, os.O_WRONLY | os.O_APPEND), sys.stderr.fileno())
    os.environ["TIDEMARK_FAILPOINTS"] = failpoint
    sys.exit(main(program, region, seed))


def main(program: str, region: FaultRegion, seed: Seed | None) -> int:
    """Do what the program says; the exit code of its error."""
    assert Path(tidemark.__file__).is_relative_to(PROJECT), tidemark.__file__
    if seed:
        try:
            seed.plant()
        except AttributeError as error:
            print(f"{seed.bug}: not planted: {error}", file=sys.stderr)
            return NOT_PLANTED
    fork_workers(FORKED_WORKERS)
    try:
        programs: dict[str, Callable[[], object]] = {
            "run": partial(region.run, pool_executor),
            "retry": partial(region.retry, pool_executor),
            "member": partial(region.member, pool_executor),
            "reset": region.reset,
            "dry run": partial(region.reset, apply=False),
            "rewind": region.rewind,
            "withhold": region.withhold,
            "replay": partial(region.replay, pool_executor),
        }
        programs[program]()
    except TidemarkError as error:
        print(f"{error.code} {error.case}: {error}", file=sys.stderr)
        return error.exit_code
    return 0
