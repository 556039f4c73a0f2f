"""Drain a pipeline as one member of a run: `spark-submit jobs/drain.py dags/flights.yaml`.

The run and the connections come from the environment: TIDEMARK_RUN_ID, TIDEMARK_MEMBER_NAME,
TIDEMARK_MEMBER_SLOT and AIRFLOW_CONN_<ID> (Airflow's DrainOperator sets them; the run must be
open). Ends with
0 when the ledger says that the run is done, 2 for wrong usage or settings, 10 and above when
no retry can help, 1 for anything else, 130 and 143 when Ctrl-C or SIGTERM ended it; the reason is
the last line of stderr.
"""

import argparse
import dataclasses
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tidemark.runs.job import JobExecutor
    from tidemark.spark.specs import JobSpec

ROOT = Path(__file__).resolve().parents[1]
STOPPED = "the driver was told to stop; the unfinished batch was not published"
STOP_SECONDS = 20.0
"""For a clean stop once the task that started this driver is gone."""


class DriverTerminated(KeyboardInterrupt):
    """SIGTERM: ends like Ctrl-C, with a code of its own."""


def main(arguments: list[str] | None = None) -> int:
    """Drain, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pipeline", metavar="PIPELINE_FILE")
    path = parser.parse_args(arguments).pipeline
    _find_the_library()
    from tidemark.environment import is_airflows
    from tidemark.errors import TidemarkError

    for name in [*filter(is_airflows, os.environ)]:
        del os.environ[name]  # the operator could only empty them

    try:
        result = drain(path)
    except TidemarkError as error:
        print(f"{error.code}: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt as end:
        is_term = isinstance(end, DriverTerminated)
        code, name = (143, "TERMINATED") if is_term else (130, "INTERRUPTED")
        print(f"{name}: {STOPPED}", file=sys.stderr, flush=True)
        return code
    except Exception as error:
        traceback.print_exc()
        print(f"DEFECT: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    print(json.dumps(result, default=str), flush=True)
    return 0


def drain(path: str) -> dict[str, object]:
    """Run the member's loop of the run that the environment names; return what it did."""
    from tidemark.runs.errors import DriverEnvironmentUnfit
    from tidemark.runs.member import drain_run
    from tidemark.settings.connections import Connection
    from tidemark.settings.pipeline import Pipeline

    run_id = os.environ.get("TIDEMARK_RUN_ID", "")
    if not run_id:
        raise DriverEnvironmentUnfit(
            variable="TIDEMARK_RUN_ID", value=run_id, wanted="the id of the open run"
        )
    pipeline = Pipeline.load(path)
    drained = drain_run(
        pipeline,
        {conn_id: Connection.from_env(conn_id) for conn_id in pipeline.connections},
        run_id=run_id,
        member_name=os.environ.get("TIDEMARK_MEMBER_NAME", socket.gethostname()),
        executor_of=_spark,
        slot=_slot(),
    )
    return dataclasses.asdict(drained)


def _slot() -> int:
    """Which of the run's members this is, from 1: its static name in the group."""
    from tidemark.runs.errors import DriverEnvironmentUnfit

    text = os.environ.get("TIDEMARK_MEMBER_SLOT", "1")
    if not text.isdecimal() or int(text) < 1:
        raise DriverEnvironmentUnfit(
            variable="TIDEMARK_MEMBER_SLOT", value=text, wanted="the member's number, 1 or more"
        )
    return int(text)


def _spark(spec: "JobSpec") -> "JobExecutor":
    """Spark costs seconds to import: only once there is something to read."""
    from tidemark.spark.executor import spark_executor

    return spark_executor(spec)


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """End the main thread where it stands; its `finally` clauses cancel the job and leave."""
    signal.signal(number, signal.SIG_IGN)
    raise DriverTerminated


def watch(supervisor: int) -> None:
    """Stop once the JVM, or the Airflow task that started it, has died without a word."""
    parent = os.getppid()
    while os.getppid() == parent and _lives(supervisor):
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os._exit(128 + signal.SIGTERM)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _find_the_library() -> None:
    """Make a checkout work without PYTHONPATH, here and in processes started from here.

    The checkout's own transforms come last: a project's `jobs` is never shadowed by them.
    """
    if not (ROOT / "plugins").is_dir():
        return  # installed: the library is importable as it is
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(ROOT / "plugins"), *filter(None, known), str(ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    sys.path[:] = dict.fromkeys([paths[0], *sys.path, *paths[1:]])


def _start() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tidemark").setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, stop)
    supervisor = os.environ.get("TIDEMARK_SUPERVISOR")
    if supervisor:
        threading.Thread(target=watch, args=(int(supervisor),), daemon=True).start()


if __name__ == "__main__":
    _start()
    sys.exit(main())
