"""What a person removes from the ledger: a whole region, or old dead letters.

What a region has published stays, and so does which epochs and seqs were given out. Dead letters
that are purged go, and their batches count how many.
"""

from collections import Counter
from dataclasses import asdict, dataclass

from sqlalchemy import Engine

from tidemark.ledger import kept_dead_letters, rewinds
from tidemark.ledger.actions import Order, write_action
from tidemark.ledger.errors import (
    DeadLettersAreRewound,
    RegionChangedMeanwhile,
    RegionNotAtRest,
    RegionNotReadBack,
)
from tidemark.ledger.ledger import lock_region
from tidemark.model.dead_letters import DeadLetterFilter
from tidemark.model.state import RegionState
from tidemark.postgres.session import Cursor, query
from tidemark.postgres.transaction import autocommit, transaction


@dataclass(frozen=True, slots=True)
class Size:
    """What the ledger has of a region."""

    partitions: int
    batches: int
    dead_letters: int


def size_of(cursor: Cursor, region: str) -> Size:
    """What the ledger has of a region now."""
    cursor.execute(query("size_of"), {"region": region})
    return Size(*(cursor.fetchone() or (0, 0, 0)))


def drop_region(engine: Engine, state: RegionState, order: Order | None) -> Size:
    """The ledger has nothing more of the region but its actions; without an order all stays.

    A zombie finds no region and writes nothing; if one of the same name is made again, it begins
    above the epochs and seqs of this one. If it crashes: all of it stands, or nothing.

    Raises:
        Superseded: another epoch has begun since the state was read.
        Refused: a run, a reset or a rewind is at work, or died there; or Kafka's offsets, all that
            is left of the region then, were not read back under this epoch.
    """
    with transaction(engine, "drop") as cursor:
        found = at_rest(cursor, state)
        cursor.execute(query("is_read_back"), {"region": state.region})
        if cursor.fetchone() != (True,):
            raise RegionNotReadBack(region=state.region, group=found.group_id)
        if order is None:
            return size_of(cursor, state.region)
        cursor.execute(query("drop_region"), {"region": state.region})
        size = Size(*(cursor.fetchone() or (0, 0, 0)))
        facts = {"group": found.group_id, "target": found.into, **asdict(size)}
        write_action(cursor, state.region, "drop", order, _given_out(found) | facts)
        return size


def at_rest(cursor: Cursor, state: RegionState) -> RegionState:
    """The region, locked and as it was looked at.

    Raises:
        Superseded: another epoch has begun since the state was read.
        Refused: a run, a reset or a rewind is at work, or died there.
    """
    found = lock_region(cursor, state.region)
    if found.epoch != state.epoch:
        raise RegionChangedMeanwhile(region=state.region, epoch=state.epoch, found=found.epoch)
    if _has_open_run(cursor, state.region):
        raise RegionNotAtRest(region=state.region)
    return found


def _has_open_run(cursor: Cursor, region: str) -> bool:
    cursor.execute(query("has_open_run"), {"region": region})
    return cursor.fetchone() == (True,)


def _given_out(state: RegionState) -> dict[str, int]:
    """What a later region of this name must not give out again."""
    return {"epoch": state.epoch, "next_seq": state.next_seq}


STEP = 5_000
"""Dead letters of one transaction: so long nothing is published in the region."""


def purgeable(
    engine: Engine, region: str, meant: DeadLetterFilter
) -> tuple[Counter[str], Counter[str], int]:
    """How many dead letters a purge would remove, and how many it leaves there; by reason.

    And how many are to be sent to their topic first.
    """
    with autocommit(engine) as cursor:
        cursor.execute(query("purgeable"), {"region": region, **kept_dead_letters.of_filter(meant)})
        rows = cursor.fetchall()
        # adding drops zeros
        gone, left = Counter({row[0]: row[1] for row in rows}), {row[0]: row[2] for row in rows}
        return gone + Counter(), Counter(left) + Counter(), sum(row[3] for row in rows)


def purge(engine: Engine, region: str, meant: DeadLetterFilter, order: Order) -> Counter[str]:
    """Remove some of the dead letters that are meant; return their number by reason.

    None are left when it returns nothing. Deletion, count and audit row are one transaction.

    Raises:
        Refused: a rewind is under way, which has counted them already.
    """
    with transaction(engine, "purge") as cursor:
        lock_region(cursor, region)
        if rewinds.rewind_is_under_way(cursor, region):
            raise DeadLettersAreRewound(region=region)
        values = {"region": region, "step": STEP, **kept_dead_letters.of_filter(meant)}
        cursor.execute(query("purge_dead_letters"), values)
        gone = Counter(dict(cursor.fetchall()))
        if gone:
            until = meant.until.isoformat() if meant.until else None
            details = {"dead_letters": gone.total(), "by_reason": dict(gone), "until": until}
            write_action(cursor, region, "purge", order, details)
        return gone
