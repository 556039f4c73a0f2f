"""One process of one path: what is started, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.usage import Usage


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a user would start, into a table of its own."""

    table: str
    argv: list[str]
    env: dict[str, str]
    seconds: Callable[[Usage], float]
    """Of work: the start of Python and Spark is not in it."""
    folder: Path
    """Settings, and what the path itself keeps on disk."""


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt that ended well: seconds of work, and what its processes cost."""

    table: str
    work: float
    usage: Usage
