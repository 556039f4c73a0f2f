"""Retire: the staging tables of batches that are published or discarded go, old checkpoints too."""

import logging
from collections.abc import Iterator

import psycopg2
from sqlalchemy import Engine

from tidemark.errors import TidemarkError
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.queries import query
from tidemark.model.batch import Staging
from tidemark.postgres.transaction import autocommit, transaction
from tidemark.staging.tables import DROP_WAIT_MS, drop, staged_batches

log = logging.getLogger(__name__)


def retire(engine: Engine, region: str, *, wait_ms: int = DROP_WAIT_MS) -> list[int]:
    """Drop the region's staging tables but those of its unpublished batch; return their seqs.

    Best effort, also beside members at work: a table that a stopped executor still holds is
    waited for `wait_ms` and left for the next time. Each batch has a transaction of its own, as
    every table dropped stays locked to its end.
    """
    retired: list[int] = []
    try:
        for seq in _done_with(engine, region):
            with transaction(engine, "retire") as cursor:
                is_dropped = drop(cursor, Staging.of(region, seq), wait_ms=wait_ms)
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
        next_seq, unpublished = cursor.fetchone() or (0, None)
        staged = staged_batches(cursor, Staging.of(region, 0).schema, region)
    return (seq for seq in staged if seq < next_seq and seq != unpublished)


def prune(ledger: Ledger, region: str, epoch: int, retain: int) -> None:
    """The ledger holds the newest `retain` checkpoints, and every partition's newest boundary.

    Best effort, under the run's epoch: what is left is pruned by the next run.
    """
    try:
        with ledger.deciding(region, epoch, "prune") as tx:
            tx.prune(retain)
    except TidemarkError as error:
        log.warning("the ledger was not pruned: %s", error)
