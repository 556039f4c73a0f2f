"""A purge of dead letters from outside: those of old batches, with an audit row."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import psycopg2

from tidemark.errors import TidemarkError
from tidemark.ledger import purging
from tidemark.ledger.actions import Order
from tidemark.ledger.looks import Looks
from tidemark.member.retire import TIDYING_SECONDS
from tidemark.model.dead_letters import LetterFilter
from tidemark.operations.region import Connections, Region, region_of
from tidemark.settings.pipeline import Pipeline

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What a purge removed, or in a dry run (applied false) would remove."""

    region: str
    applied: bool
    until: datetime
    """Batches published before it; by the server's clock."""
    dead_letters: int
    by_reason: dict[str, int]
    left: dict[str, int]
    """Those that it does not remove, for `verify` needs the rows that the target refused."""
    unsent: int = 0
    """Those that it does not remove before they were sent to `dead_letters.topic`."""


def purge_letters(
    pipeline: Pipeline,
    connections: Connections,
    meant: LetterFilter,
    age: timedelta,
    order: Order | None,
    move: Callable[[int, int], None] = lambda done, of: None,
) -> PurgeReport:
    """Dead letters of batches older than `age` are gone, or without an order counted.

    If it crashes: those that are gone are counted in the ledger and have an audit row.

    Raises:
        Refused: the region never opened, or a rewind is under way.
    """
    with region_of(pipeline, connections) as region:
        region.state()
        engine = region.ledger.engine
        until = Looks(engine).now() - age
        meant = replace(meant, until=min(until, meant.until or until))
        found, left, unsent = purging.purgeable(engine, region.name, meant)
        if order:
            expected, found = found, Counter[str]()
            while gone := purging.purge(engine, region.name, meant, order):
                found += gone
                move(found.total(), expected.total())
        by_reason = dict(found.most_common())
        return PurgeReport(
            region.name,
            order is not None,
            meant.until or until,
            found.total(),
            by_reason,
            left,
            unsent,
        )


def purge_old(region: Region) -> None:
    """What `dead_letters.retain_days` no longer wants is gone; best effort, for a bounded time."""
    days = region.pipeline.dead_letters.retain_days
    if days is None:
        return
    engine, deadline = region.ledger.engine, time.monotonic() + TIDYING_SECONDS
    order = Order("retention", f"dead_letters.retain_days: {days}")
    try:
        meant = LetterFilter(until=Looks(engine).now() - timedelta(days=days))
        while purging.purge(engine, region.name, meant, order) and time.monotonic() < deadline:
            pass
    except (TidemarkError, psycopg2.Error) as error:
        log.warning("old dead letters were not purged: %s", error)
