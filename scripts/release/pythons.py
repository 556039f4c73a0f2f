"""The Pythons that Tidemark names, where they are on this machine, and those that uv can fetch."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scripts.release.command import Broken, fetch, last_line, run

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def interpreter(python: str) -> Path:
    """Where this Python is; uv fetches it if it is not here.

    Raises:
        Broken: neither here nor to be had.
    """
    for found in _candidates(python):
        if _version(found) == python:
            return found
    fetch(f"Python {python}", ["uv", "python", "install", python])
    return Path(run(["uv", "python", "find", "--managed-python", python]).strip())


def available(wanted: tuple[str, ...]) -> tuple[dict[str, Path], dict[str, str]]:
    """Where each Python is; and of each that can't be had, why."""
    found: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for python in wanted:
        try:
            found[python] = interpreter(python)
        except Broken as error:
            missing[python] = last_line(error)
    return found, missing


def _candidates(python: str) -> Iterator[Path]:
    """On PATH, then pyenv's: its shims answer for the versions alone that are switched on."""
    name = f"python{python}"
    for folder in os.environ["PATH"].split(os.pathsep):
        if found := shutil.which(name, path=folder):
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{python}.*/bin/{name}"), reverse=True)


def _version(python: Path) -> str | None:
    """None if it does not run."""
    told = subprocess.run(  # noqa: S603 -- a Python of this machine
        [python, "-c", ASK], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() if told.returncode == 0 else None
