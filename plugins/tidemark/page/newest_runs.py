"""The newest runs of a region that can be drawn beside each other."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark.ledger.past import Driver, PastReset, Share
from tidemark.ledger.timeline import Timeline

EPOCHS = 4
"""As many as the demonstration makes: a run, its reset, a rewind, the next run."""
LANES, SHARES, RESETS = 40, 600, 20
"""At most so many of each."""
NEAR = timedelta(minutes=1)
"""An older run is drawn too if so little time, or no more than those drawn took, lies between."""


@dataclass(frozen=True, slots=True)
class Newest:
    """What is drawn."""

    region: str
    drivers: list[Driver]
    shares: list[Share]
    resets: list[PastReset]
    now: datetime
    """By the ledger's clock: so far reaches what has not ended."""
    is_over: bool = True
    """Whether no run is open: a driver that never said that it was done has died."""


def newest(
    timeline: Timeline, region: str, epoch: int, now: datetime, *, is_over: bool = True
) -> Newest:
    """The newest epochs, but no run that lies too far back to be seen beside them."""
    first = epoch - EPOCHS + 1
    drivers = timeline.recent_drivers(region, first, LANES)
    first = first_near(drivers, epoch)
    return Newest(
        region,
        [one for one in drivers if one.epoch >= first],
        timeline.recent_shares(region, first, SHARES)[::-1],  # a newer one is drawn over an older
        [one for one in timeline.recent_resets(region, RESETS) if one.epoch >= first],
        now,
        is_over,
    )


def first_near(drivers: list[Driver], epoch: int) -> int:
    """The oldest epoch that is drawn."""
    starts: dict[int, datetime] = {}
    ends: dict[int, datetime] = {}
    for one in drivers:
        starts[one.epoch] = min(starts.get(one.epoch, one.joined), one.joined)
        ends[one.epoch] = max(ends.get(one.epoch, one.seen), one.seen)
    epochs = sorted(starts, reverse=True)
    first = epochs[0] if epochs else epoch
    for older in epochs[1:]:
        span = max(ends.values()) - starts[first]
        if starts[first] - ends[older] > max(NEAR, span):
            break
        first = older
    return first
