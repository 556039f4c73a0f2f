"""Retire: staging tables of batches that are published or discarded go; old checkpoints go."""

import logging

import psycopg2
from psycopg2 import sql
from sqlalchemy import Engine

from tidemark.errors import TidemarkError
from tidemark.ledger.queries import query
from tidemark.ledger.transaction import look

log = logging.getLogger(__name__)

LOCK_TIMEOUT_MS = 500


def retire(engine: Engine, region: str) -> list[str]:
    """Drop the region's staging tables but those of its unpublished batch; return their names.

    Best effort: a table that a stopped executor still holds is left for the next time.
    """
    dropped = []
    try:
        with look(engine) as cursor:
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, false)", (f"{LOCK_TIMEOUT_MS}ms",)
            )
            cursor.execute(query("retired_staging"), {"region": region})
            for schema, table in cursor.fetchall():
                try:
                    cursor.execute(
                        sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(schema, table))
                    )
                    dropped.append(table)
                except psycopg2.errors.LockNotAvailable:
                    log.warning("%s is in use; it is dropped another time", table)
            cursor.execute("RESET lock_timeout")
    except TidemarkError as error:
        log.warning("staging was not retired: %s", error)
    return dropped
