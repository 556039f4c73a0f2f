"""Which periods readers were told of: kept under the region's lock, before anybody tells them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from tidemark.model.periods import Calendar, Period
from tidemark.postgres.session import Cursor, query

MOST_PERIODS = 100
"""One close tells of so many, the oldest ones; the next closes tell the rest."""


@dataclass(frozen=True, slots=True)
class PeriodNews:
    """Periods that a close is about to tell of, as all that they hold is in the targets."""

    periods: Sequence[Period]
    again: Sequence[str]
    """Keys of those that a close was about to tell of before: it died, or they were rewound."""
    complete_at: datetime
    transactions_were_open: bool
    accepted: Sequence[str]
    """What a person accepted as lost: it is in no target."""
    timestamps: str | None = None
    """CreateTime if producers write the times of records, LogAppendTime if Kafka does; None where
    the ledger alone was asked, or Kafka does not tell."""


def announce(cursor: Cursor, region: str, epoch: int, calendar: Calendar) -> PeriodNews | None:
    """Keep that the run of this epoch tells of what is complete and was not told; None: nothing.

    The transaction has the region's lock and its epoch.
    """
    until, sent, complete_at, *remarks = _periods(cursor, region)
    if complete_at is None:
        return None
    periods = [*islice(calendar.complete(until, complete_at), MOST_PERIODS)]
    if not periods:
        return None
    values = {
        "region": region,
        "epoch": epoch,
        "periods_since": periods[0].start,
        "periods_until": periods[-1].end,
        "lateness": calendar.lateness,
    }
    cursor.execute(query("announce_periods"), values)
    cursor.execute(query("announce_periods_of_run"), values)
    return PeriodNews(periods, _sent(periods, sent), complete_at, *remarks)


def rewound(cursor: Cursor, region: str, calendar: Calendar) -> list[str]:
    """The keys of periods that readers know of and that a rewind took back; at most so many."""
    until, sent, *_ = _periods(cursor, region)
    if until is None:
        return []
    found = islice(calendar.complete(until, sent + calendar.lateness), MOST_PERIODS)
    return [one.key for one in found]


def _periods(cursor: Cursor, region: str) -> tuple[Any, ...]:
    cursor.execute(query("periods"), {"region": region})
    found: tuple[Any, ...] = cursor.fetchone() or (None,) * 5
    return found


def _sent(periods: Sequence[Period], sent: datetime | None) -> list[str]:
    return [one.key for one in periods if sent and one.end <= sent]
