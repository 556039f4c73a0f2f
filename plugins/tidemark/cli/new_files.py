"""New files: what `tidemark init` writes for a pipeline, all of it or nothing."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tidemark.cli.faults import FileNotWritten, FilesTaken

Files = Mapping[Path, str]
"""Texts by path."""


def refuse_taken(paths: Iterable[Path]) -> None:
    """Refuse to write where something is.

    Raises:
        InvalidSettings: names it, and how to go on.
    """
    if taken := tuple(path for path in paths if os.path.lexists(path)):
        raise FilesTaken(files=taken)


def write_all(files: Files) -> None:
    """Each file is there with its text; or none is, and no folder that was not there before.

    Raises:
        InvalidSettings: a path is taken, or can't be written.
    """
    made: list[Path] = []
    try:
        for path, text in files.items():
            made += _made_folders(path.parent)
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except BaseException as error:
        _remove(made)
        if isinstance(error, OSError):
            raise FileNotWritten(file=str(error.filename), cause=str(error.strerror)) from error
        raise


def _made_folders(folder: Path) -> list[Path]:
    """The folder exists; those that were made for it, the outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove(made: Iterable[Path]) -> None:
    for path in [*made][::-1]:
        with suppress(OSError):  # a folder that somebody else has put something into
            path.rmdir() if path.is_dir() else path.unlink()
