"""What an image is made of: the files that its Dockerfile copies and .dockerignore lets through."""

import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from scripts.release.command import ROOT


def copied(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """Each source, and where it goes."""
    for line in dockerfile.read_text().splitlines():
        if line.startswith("COPY "):
            *sources, to = line.split()[1:]
            yield from ((source, to) for source in sources)


def let_through(source: str) -> bool:
    """Whether .dockerignore, which ignores all and names exceptions, has this one."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    return any(
        source == one or fnmatch(source, one) or source.startswith(f"{one}/") for one in kept
    )


def context(dockerfile: Path, folder: Path) -> None:
    """The folder holds what the image gets in its working folder."""
    for source, to in copied(dockerfile):
        for found in sorted(ROOT.glob(source)) if let_through(source) else ():
            place = folder / (to if found.is_dir() else found.name)
            if found.is_dir():
                unwanted = shutil.ignore_patterns("__pycache__")
                shutil.copytree(found, place, symlinks=True, ignore=unwanted)
            else:
                shutil.copy(found, place)
