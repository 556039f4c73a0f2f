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
    may write, or that is another account's: what they put there would be run as the driver.
    """
    own = file.resolve().parent
    owners = {0, os.geteuid(), own.stat().st_uid} if own.exists() else set()
    for folder in (own, *own.parents):
        if folder != own and not _is_ours(folder, owners):
            break
        if _is_ours(folder / JOBS, owners):
            return folder
        if any((folder / one).exists() for one in _ENDS):
            break
    return own


def _is_ours(folder: Path, owners: set[int]) -> bool:
    """A folder of these owners, which nobody else may write."""
    try:
        found = folder.stat()
    except OSError:
        return False
    groups = {0, *os.getgroups()}
    is_others = found.st_mode & stat.S_IWOTH
    is_foreign = found.st_mode & stat.S_IWGRP and found.st_gid not in groups
    return (
        stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not is_others and not is_foreign
    )
