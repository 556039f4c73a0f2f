"""What counts as progress while somebody waits, and how long a wait without any may last."""

from collections.abc import Callable


class Patience:
    """A wait, by a clock.

    What moves begins it anew, and so does an excuse; but no excuse is one so long after the last
    move: what comes and goes holds nobody for ever.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: object = self
        self._moved = self._since = clock()

    @property
    def waited(self) -> float:
        """Seconds since the last move or excuse."""
        return self._clock() - self._since

    def look(self, at: object) -> None:
        """What is waited for stands like this; if it did not before, it has moved."""
        if at != self._seen:
            self._seen = at
            self.renew()

    def renew(self) -> None:
        """Something has moved."""
        self._moved = self._since = self._clock()

    def excuse(self, within: float) -> bool:
        """Nobody could move; False, so many seconds after the last move, if that is no excuse."""
        now = self._clock()
        is_excused = now - self._moved < within
        if is_excused:
            self._since = now
        return is_excused
