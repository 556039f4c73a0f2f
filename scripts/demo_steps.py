"""Steps of a demonstration: said, timed, and waited for."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

WAIT_SECONDS = 600.0
"""For one run: a hang, not a machine that is busy with other things too."""

console = Console()


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Return when it is so.

    Raises:
        TimeoutError: it was not, for WAIT_SECONDS.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {WAIT_SECONDS:.0f} s for {what}")
        time.sleep(0.05)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what is done, with a spinner in a terminal, and how long it took."""
    started = time.monotonic()
    with console.status(text):
        yield
    took = f"[dim]({time.monotonic() - started:.1f} s)[/]"
    console.print(f"[green]✓[/] {text} {took}", soft_wrap=True)
