"""A clock that a test moves, for members that wait by it."""

from tests.support.waiting import until


class Clock:
    """Seconds that stand still until the test moves them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._looks = 0

    def __call__(self) -> float:
        self._looks += 1
        return self.now

    def move(self, seconds: float) -> None:
        """So much time has passed, and whoever waits has judged it; for one who waits at a time.

        It looks at most three times each time that it judges: by the fifth look it has judged once.
        """
        self.now += seconds
        seen = self._looks
        until(lambda: self._looks >= seen + 5)
