"""Drop the staging tables of published and discarded batches; prune old checkpoints."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import psycopg2
from sqlalchemy import Engine

from tidemark.deadline import Deadline
from tidemark.errors import TidemarkError
from tidemark.ledger.deciding import Deciding
from tidemark.ledger.ledger import Ledger
from tidemark.model.batch import Staging
from tidemark.postgres.session import query
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.staging.tables import DROP_WAIT_MS, drop, staged_batches, table_names

log = logging.getLogger(__name__)

TIDYING_SECONDS = 10.0
"""How long a close drops staging tables, and again prunes: what is left goes the next time."""

PRUNE_STEP = 1
"""Checkpoints that the first transaction prunes; the next ones more, while they are short."""

SWEEP_ROWS = 10_000
"""Rows of undo, or batches, that the first transaction deletes after the checkpoints."""

SHORT_SECONDS = 0.5
"""The region's lock is held for about so long."""


def retire(engine: Engine, region: str, *, wait_ms: int = DROP_WAIT_MS) -> list[int]:
    """Drop the region's staging tables but those of unpublished batches; return their seqs.

    Best effort, also beside members at work: a table that a stopped executor still holds is
    waited for `wait_ms` and left for the next time; its session is ended. Each batch has a
    transaction of its own, as every table dropped stays locked to its end.
    """
    retired: list[int] = []
    deadline = Deadline(TIDYING_SECONDS)
    try:
        for seq in _done_with(engine, region):
            if deadline.is_past:
                break
            with transaction(engine, "retire") as cursor:
                is_dropped = drop(cursor, Staging.of(region, seq), wait_ms=wait_ms)
            if not is_dropped:
                _end_writers(engine, Staging.of(region, seq))
            retired += [seq] if is_dropped else []
    except (TidemarkError, psycopg2.Error) as error:
        log.warning("staging was not retired: %s", error)
    return retired


def _done_with(engine: Engine, region: str) -> Iterator[int]:
    """Batches with staging tables that nobody needs.

    A seq is known before its tables are made and never given out again, so what lies below
    next_seq and is not planned is done with, for ever.
    """
    with autocommit(engine) as cursor:
        cursor.execute(query("seqs_in_use"), {"region": region})
        next_seq, unpublished = cursor.fetchone() or (0, [])
        staged = staged_batches(cursor, region)
    return (seq for seq in staged if seq < next_seq and seq not in unpublished)


def _end_writers(engine: Engine, staging: Staging) -> None:
    """Tell the server to end the tasks' sessions that still write to tables nobody needs."""
    with autocommit(engine) as cursor:
        for table in table_names(cursor, staging):
            values = {"table": f'"{staging.schema}"."{table}"'}
            cursor.execute(query("end_writers"), values)
            for _ in cursor.fetchall():
                log.warning("ended a session that still wrote to %s.%s", staging.schema, table)


def prune(ledger: Ledger, region: str, epoch: int, retain: int) -> None:
    """The ledger holds the newest `retain` checkpoints, and every partition's newest boundary.

    Best effort, under the run's epoch, in steps for a bounded time: what is left is pruned by the
    next run. Undo and batches are deleted afterwards, in steps of rows: a large upsert, or batches
    that dead letters keep, must not hold checkpoints back.
    """
    deadline = Deadline(TIDYING_SECONDS)
    deciding = partial(ledger.deciding, region, epoch, "prune")
    try:
        _in_steps(deciding, deadline, PRUNE_STEP, lambda tx, step: tx.prune(retain, step))
        _in_steps(deciding, deadline, SWEEP_ROWS, lambda tx, rows: tx.sweep_undo(rows))
        _in_steps(deciding, deadline, SWEEP_ROWS, lambda tx, rows: tx.sweep_batches(rows))
    except (TidemarkError, psycopg2.Error) as error:
        log.warning("the ledger was not pruned: %s", error)


def _in_steps(
    deciding: Callable[[], AbstractContextManager[Deciding]],
    deadline: Deadline,
    step: int,
    delete: Callable[[Deciding, int], bool],
) -> None:
    """Delete as long as more is left, at least once: each step a transaction, none too long."""
    is_more = True
    while is_more:
        begin = time.monotonic()
        with deciding() as tx:
            is_more = delete(tx, step)
        is_short = time.monotonic() - begin < SHORT_SECONDS
        step = step * 2 if is_short else max(1, step // 2)
        is_more = is_more and not deadline.is_past


@contextmanager
def green(region: str) -> Iterator[None]:
    """Log what goes wrong while tidying up after a closed run; never fail the task for it.

    Not even by Airflow's time-out, which is a BaseException. Ctrl-C still ends the task.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        log.warning(
            "region %s: the run is done; cleanup was interrupted, the next run goes on: %s: %s",
            region,
            type(error).__name__,
            error,
        )
