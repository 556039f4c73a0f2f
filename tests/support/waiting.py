"""The one way in which a test waits: for a condition, and for time only to let it pass."""

import threading
import time
from collections.abc import Callable

LONGEST = 0.25


def until(
    condition: Callable[[], object],
    within: float = 120,
    told: Callable[[], object] = str,
    pause: float = 0.05,
) -> None:
    """Return when the condition holds; `told` says how things stand if it never does.

    `within` is for a hang, in seconds: a busy machine must not reach it. The pause grows to
    `LONGEST`: a look can cost as much as what is waited for.
    """
    deadline = time.monotonic() + within
    tick = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to hold in {within} s: {told()}"
        tick.wait(pause)
        pause = max(pause, min(pause * 1.5, LONGEST))


def outlast(seconds: float) -> None:
    """Let time pass: for an outage, a batch longer than an interval, or what must not happen.

    Nothing may hang on it but that this much has passed; more may have.
    """
    threading.Event().wait(seconds)
