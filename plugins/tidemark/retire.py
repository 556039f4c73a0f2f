"""Retire: the staging tables of batches that are published or discarded go, old checkpoints too."""

import logging

from sqlalchemy import Engine

from tidemark.checkpoint import Staging
from tidemark.errors import TidemarkError
from tidemark.ledger.ledger import Ledger
from tidemark.ledger.queries import query
from tidemark.ledger.transaction import transaction
from tidemark.staging.tables import drop, staged_batches

log = logging.getLogger(__name__)


def retire(engine: Engine, region: str) -> list[int]:
    """Drop the region's staging tables but those of its unpublished batch; return their seqs.

    Best effort: a table that a stopped executor still holds is left for the next time. A seq is
    known before its tables are made and never given out again, so what lies below next_seq and
    is not planned is done with.
    """
    try:
        with transaction(engine, "retire") as cursor:
            cursor.execute(query("seqs_in_use"), {"region": region})
            next_seq, unpublished = cursor.fetchone() or (0, None)
            staged = staged_batches(cursor, Staging.of(region, 0).schema, region)
            done_with = [seq for seq in staged if seq < next_seq and seq != unpublished]
            return [seq for seq in done_with if drop(cursor, Staging.of(region, seq))]
    except TidemarkError as error:
        log.warning("staging was not retired: %s", error)
        return []


def prune(ledger: Ledger, region: str, epoch: int, retain: int) -> None:
    """The ledger holds the newest `retain` checkpoints, and every partition's newest boundary.

    Best effort, under the run's epoch: what is left is pruned by the next run.
    """
    try:
        with ledger.deciding(region, epoch, "prune") as tx:
            tx.prune(retain)
    except TidemarkError as error:
        log.warning("the ledger was not pruned: %s", error)
