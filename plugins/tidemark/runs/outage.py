"""An outage, waited out up to a bound and named in the log each round.

A drain waits for Kafka, a close for Kafka and Postgres.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from tidemark.deadline import Clock
from tidemark.errors import Unreachable

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Between two rounds; a round that times out takes longer by itself."""

T = TypeVar("T")


class Outage:
    """Since when nobody has answered, and for how long that is borne."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._since: float | None = None

    def bear(self, error: Unreachable) -> None:
        """One more round without an answer; it stands in the log.

        Raises:
            Unreachable: the error, once there was no answer for longer than the bound.
        """
        now = self._clock()
        self._since = now if self._since is None else self._since
        away = now - self._since
        if away > self._seconds:
            raise error
        log.warning(
            "OUTAGE: no answer for %.0f s, trying for up to %g s: %s", away, self._seconds, error
        )

    def end(self) -> bool:
        """There was an answer; whether there was none before."""
        was_away = self._since is not None
        self._since = None
        return was_away


def waited_out(
    ask: Callable[[], T], outage: Outage, each_round: Callable[[], None] = lambda: None
) -> T:
    """What `ask` returns as soon as it is answered.

    Raises:
        Unreachable: it was not for longer than the outage may take.
    """
    while True:
        try:
            return ask()
        except Unreachable as error:
            outage.bear(error)
        each_round()
        time.sleep(PAUSE_SECONDS)
