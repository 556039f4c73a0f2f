"""When a doorbell rings: once for each epoch, and again where that may change anything."""

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from tidemark.model.offsets import Offsets
    from tidemark.views.status import Unread

AGAIN_SECONDS = 300.0
"""A ring that no run answered is repeated after so long, and after twice as long each time."""


class Rings:
    """The rings of one doorbell; `floor` is the schedule's cron line, `fingerprint` the file's.

    An open that was refused is not tried again until records come, or another file. Rings of one
    epoch are further apart each time, up to the interval of the floor: however a run ends without
    an epoch, it is not started over and over.
    """

    def __init__(
        self, fingerprint: str, floor: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self._fingerprint = fingerprint
        self._floor = floor
        self._clock = clock
        self._epoch = -1
        self._rung_at = 0.0
        self._repeats = 0
        self._refused_at: datetime | None = None
        self._ends: Offsets | None = None
        """Of the topics when it rang, or when an open was refused for which it did not ring."""
        self._is_answered = True

    def is_due(self, found: "Unread") -> bool:
        """Whether to ring now; then it has rung."""
        self._hear(found)
        if not (found.offsets and found.is_at_rest and self._may_help(found)):
            return False
        if self._epoch == found.epoch and self._clock() - self._rung_at < self._pause:
            return False
        self._repeats = self._repeats + 1 if self._epoch == found.epoch else 0
        self._epoch, self._rung_at = found.epoch, self._clock()
        self._ends, self._is_answered = found.ends, False
        return True

    def _hear(self, found: "Unread") -> None:
        """Learn of a refusal. The first one after a ring answers it, and saw the same records."""
        if found.refused is None or found.refused.at == self._refused_at:
            return
        if self._is_answered or self._ends is None:
            self._ends = found.ends
        self._refused_at, self._is_answered = found.refused.at, True

    def _may_help(self, found: "Unread") -> bool:
        if found.refused is None:
            return True
        is_other_file = self._fingerprint not in ("", found.refused.fingerprint)
        return is_other_file or found.ends != self._ends

    @property
    def _pause(self) -> float:
        longest = max(AGAIN_SECONDS, interval(self._floor))
        return min(AGAIN_SECONDS * 2.0 ** min(self._repeats, 60), longest)


def interval(floor: str) -> float:
    """Seconds between the next two times of a cron line; 0.0 of one that can't be read."""
    from croniter import CroniterError, croniter  # type: ignore[import-untyped]

    try:
        times = croniter(floor)
        first: float = times.get_next(float)
        return float(times.get_next(float)) - first
    except (CroniterError, ValueError):
        return 0.0
