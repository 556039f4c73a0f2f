"""Steps of a demonstration: said, timed, and waited for."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from tidemark.deadline import Deadline

WAIT_SECONDS = 600.0
"""For one run: a hang, not a machine that is busy with other things too."""

console = Console()


def wait_for(
    is_so: Callable[[], object], what: str, seconds: float = WAIT_SECONDS, pause: float = 0.05
) -> None:
    """Return when it is so, asked every `pause` seconds.

    Raises:
        TimeoutError: it was not, for so many seconds.
    """
    deadline = Deadline(seconds)
    while not is_so():
        if deadline.is_past:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what is done, with a spinner in a terminal, and how long it took."""
    started = time.monotonic()
    with console.status(text):
        yield
    took = f"[dim]({time.monotonic() - started:.1f} s)[/]"
    console.print(f"[green]✓[/] {text} {took}", soft_wrap=True)
