"""Until when something may take, on a clock that only goes on."""

from collections.abc import Callable
from time import monotonic

Clock = Callable[[], float]
"""Seconds since some moment, never fewer than before. A test gives one that it moves."""


class Deadline:
    """So many seconds from now."""

    def __init__(self, seconds: float, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._at = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds until then; 0 once it is past."""
        return max(0.0, self._at - self._clock())

    @property
    def is_past(self) -> bool:
        """Whether more than the seconds have gone by."""
        return self._clock() > self._at
