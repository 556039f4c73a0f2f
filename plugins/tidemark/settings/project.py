"""A pipeline's project: the folder from which its transforms and decoders are imported."""

import os
import stat
from pathlib import Path

JOBS = "jobs"
_ENDS = (".git", "dags")
"""What a repository's or a bundle's root holds: nothing above it is the pipeline's."""


def project_of(file: Path) -> Path:
    """The nearest folder above the pipeline file with jobs/ in it; the file's own if there is none.

    It ends at the root of the file's repository or bundle, and below the first folder that others
    may write, or that is another account's: what they put there would be run as the driver. Where
    everybody may write the file's own folder, as on a disk without rights, this tells nothing.
    """
    own = file.resolve().parent
    owners = None if _is_everybodys(own) else {0, os.geteuid(), own.stat().st_uid}
    for folder in (own, *own.parents):
        if folder != own and not _is_ours(folder, owners):
            break
        if _is_ours(folder / JOBS, owners):
            return folder
        if any((folder / one).exists() for one in _ENDS):
            break
    return own


def _is_everybodys(folder: Path) -> bool:
    """One that is gone is nobody's secret."""
    if not folder.exists():
        return True
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def _is_ours(folder: Path, owners: set[int] | None) -> bool:
    """A folder of these owners, which nobody else may write; None: any folder."""
    if not folder.is_dir() or owners is None:
        return folder.is_dir()
    found = folder.stat()
    is_others = found.st_mode & stat.S_IWOTH
    is_foreign = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, *os.getgroups()}
    return found.st_uid in owners and not is_others and not is_foreign
