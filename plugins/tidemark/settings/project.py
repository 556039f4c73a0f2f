"""The folder that a pipeline's own code is imported from."""

import os
import stat
from pathlib import Path


def project_of(file: Path) -> Path:
    """The nearest folder above the file that has jobs/ in it and is nobody else's to fill.

    The file's own folder if there is none. Airflow keeps bundles below the machine's temporary
    folder: whoever makes jobs/ there must not bring modules of theirs to drivers, which have the
    connections' secrets.
    """
    folder = file.resolve().parent
    return next((up for up in (folder, *folder.parents) if _holds_jobs(up, folder)), folder)


def _holds_jobs(up: Path, folder: Path) -> bool:
    jobs = up / "jobs"
    return jobs.is_dir() and (up == folder or all(_is_as_safe(one, folder) for one in (up, jobs)))


def _is_as_safe(one: Path, folder: Path) -> bool:
    """Whether who may put modules there could as well change the files in the folder."""
    found, below = one.stat(), folder.stat()
    if below.st_mode & stat.S_IWOTH and not below.st_mode & stat.S_ISVTX:
        return True  # such as a disk without rights of its own: everybody may do everything
    is_for_all = bool(found.st_mode & stat.S_IWOTH)
    return not is_for_all and found.st_uid in (0, os.geteuid(), below.st_uid)
