"""SIGKILL for a path in the middle of its work; then it is started again, as its user would."""

import os
import subprocess
import time
from dataclasses import dataclass

from psycopg2 import sql
from scripts.bench.attempt import Attempt
from scripts.bench.usage import end_tree
from scripts.bench.whole_runs import ROOT, Bench

LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Killed:
    """What Postgres holds in the end, beside what Kafka holds."""

    visible: int
    """Rows when it was killed."""
    lost: int
    doubled: int


def killed(bench: Bench, attempt: Attempt, at: float = 0.5) -> Killed:
    """Killed once this share of the rows is visible, then run to its end.

    Raises:
        RuntimeError: it ended before, or it does not end well when started again.
    """
    process = subprocess.Popen(  # noqa: S603
        attempt.argv,
        env={**os.environ, **attempt.env},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while process.poll() is None and bench.rows(attempt.table) < at * bench.records:
            time.sleep(LOOK_SECONDS)
        ended = process.poll() is not None
    finally:
        end_tree(process.pid)
        process.wait()
    if ended:
        raise RuntimeError(f"it ended with {process.returncode} before it was killed")
    visible = bench.rows(attempt.table)
    bench.measured(attempt)
    return Killed(visible, *lost_and_doubled(bench, attempt.table))


def lost_and_doubled(bench: Bench, table: str) -> tuple[int, int]:
    """Told by partition and offset, which each row carries."""
    offsets = sql.SQL("SELECT count(*), count(DISTINCT (kafka_partition, kafka_offset)) FROM {}")
    [(rows, different)] = bench.ask(offsets.format(sql.Identifier(table)))
    return bench.in_kafka() - different, rows - different
