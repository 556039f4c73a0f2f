"""Purging dead letters: they go, and their batches count how many."""

from collections import Counter

from sqlalchemy import Engine

from tidemark.ledger import letters, rewinds
from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.errors import LettersAreRewound
from tidemark.ledger.ledger import lock_region
from tidemark.model.dead_letters import LetterFilter
from tidemark.postgres.session import query
from tidemark.postgres.transaction import autocommit, transaction

STEP = 5_000
"""Dead letters of one transaction: so long nothing is published in the region."""


def purgeable(
    engine: Engine, region: str, meant: LetterFilter
) -> tuple[Counter[str], Counter[str], int]:
    """How many dead letters a purge would remove, and how many it leaves there; by reason.

    And how many are to be sent to their topic first.
    """
    with autocommit(engine) as cursor:
        cursor.execute(query("purgeable"), {"region": region, **letters.of_filter(meant)})
        rows = cursor.fetchall()
        # adding drops zeros
        gone, left = Counter({row[0]: row[1] for row in rows}), {row[0]: row[2] for row in rows}
        return gone + Counter(), Counter(left) + Counter(), sum(row[3] for row in rows)


def purge(engine: Engine, region: str, meant: LetterFilter, order: Order) -> Counter[str]:
    """Remove some of the dead letters that are meant; return their number by reason.

    None are left when it returns nothing. Deletion, count and audit row are one transaction.

    Raises:
        Refused: a rewind is under way, which has counted them already.
    """
    with transaction(engine, "purge") as cursor:
        lock_region(cursor, region)
        if rewinds.rewind_is_under_way(cursor, region):
            raise LettersAreRewound(region=region)
        values = {"region": region, "step": STEP, **letters.of_filter(meant)}
        cursor.execute(query("purge_dead_letters"), values)
        gone = Counter(dict(cursor.fetchall()))
        if gone:
            until = meant.until.isoformat() if meant.until else None
            details = {"dead_letters": gone.total(), "by_reason": dict(gone), "until": until}
            write_action(cursor, region, "purge", order, details)
        return gone
