"""A run or a reset in a process of its own, so that a test can kill it, stop it and look at it.

Programs are run, retry, member, reset, rewind, withhold, replay and again. Reader and writer work
in a pool of processes: real Kafka and Postgres, no Spark. Exit codes are the driver's.

What a program imports takes seconds. So a server, which has imported it and does nothing else,
forks each of them, and a program forks its pool before it has any client.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LIBRARY = PROJECT / "plugins"
"""Where the package stands that the server has imported."""

FORKED_WORKERS = 4
"""A pool's two, and two for tasks that are run again."""


def forked(
    program: str, world: str, failpoint: str, library: Path, words: str
) -> ForkServerProcess:
    """The program runs in a world (a FaultRegion as JSON); it writes its words into that file."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.region", "tests.support.pool"])
    process = context.Process(target=_begin, args=(program, world, failpoint, library, words))
    process.start()
    return process


def _begin(program: str, world: str, failpoint: str, library: Path, words: str) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.dup2(os.open(words, os.O_WRONLY | os.O_APPEND), sys.stderr.fileno())
    os.environ["TIDEMARK_FAILPOINTS"] = failpoint
    if library != LIBRARY:
        _forget_the_library()
        sys.path.insert(0, str(library))
    sys.exit(main(program, world, library))


def _forget_the_library() -> None:
    """Another one can be imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("tidemark", "tests") and name != __name__:
            del sys.modules[name]


def main(program: str, world: str, library: Path) -> int:
    """Do what the program says; the exit code of its error.

    Imports stand in here: `library` may be another than the server's.
    """
    from tests.faults.region import FaultRegion
    from tests.support.pool import fork_workers, pool_executor

    import tidemark
    from tidemark.errors import TidemarkError

    region = FaultRegion(**json.loads(world))
    assert Path(tidemark.__file__).is_relative_to(library), tidemark.__file__
    fork_workers(FORKED_WORKERS)
    try:
        programs: dict[str, Callable[[], object]] = {
            "run": partial(region.run, pool_executor),
            "retry": partial(region.retry, pool_executor),
            "member": partial(region.member, pool_executor),
            "reset": region.reset,
            "rewind": region.rewind,
            "withhold": region.withhold,
            "replay": partial(region.replay, pool_executor),
            "again": partial(region.again, pool_executor),
        }
        programs[program]()
    except TidemarkError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return error.exit_code
    return 0
