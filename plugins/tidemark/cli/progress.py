"""Progress on stderr, where a person looks; nothing where a file does."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str], None]
Move = Callable[[int, int, str], None]
"""Takes what is done, how much there is, and what it is at."""


@contextmanager
def spinning(text: str) -> Iterator[Tell]:
    """A spinner with a text that the block may change."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda now: status.update(now)


@contextmanager
def moving(text: str) -> Iterator[Move]:
    """A bar that the block moves; it pulses until it knows how much there is."""
    if not sys.stderr.isatty():
        yield lambda done, total, now: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(text, total=None)
        yield lambda done, total, now: progress.update(
            bar, completed=done, total=total, description=now
        )
