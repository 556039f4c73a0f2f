"""At which numbered step each process of a driver is, as its failpoints tell."""

import os
from functools import partial
from pathlib import Path

from tests.faults.seeded import Seed

from tidemark import failpoints

WIDTH = 40
STARTING = "start"
OF_POINT = {
    **dict.fromkeys(("target", "staging", "read", "stage", "reads"), "drain"),
    **dict.fromkeys(("region", "refused_open"), "open"),
    "retire": "close",
    "scratch": "verify",
}
"""Failpoints and transactions that are places of a step with another name."""


def traced(folder: Path) -> Seed:
    """A program of which each process notes the failpoints that it passes."""
    return Seed("traced", partial(_trace, str(folder)))


def step_of(folder: Path, pid: int) -> str:
    """The step that the process is in; `start` before its first."""
    try:
        name = (folder / str(pid)).read_text().strip()
    except FileNotFoundError:
        return STARTING
    head = name.partition(".")[0]
    return OF_POINT.get(head, head)


def _trace(folder: str) -> None:
    notes: dict[int, int] = {}  # a fork has its parent's too, and makes its own

    def note(name: str) -> None:
        pid = os.getpid()
        if pid not in notes:
            notes[pid] = os.open(f"{folder}/{pid}", os.O_CREAT | os.O_WRONLY, 0o600)
        os.pwrite(notes[pid], name.ljust(WIDTH).encode(), 0)

    failpoints.hit = note
