"""What the site's pages load of others: fetched once by npm, pinned, and part of the site."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

CACHE = Path.home() / ".cache" / "tidemark" / "site"


@dataclass(frozen=True, slots=True)
class Script:
    """A file of an npm package."""

    package: str
    version: str
    member: str
    sha256: str

    @property
    def name(self) -> str:
        """Its name in the site."""
        return f"{self.package}-{self.version}.js"


MERMAID = Script(
    "mermaid",
    "11.12.2",
    "dist/mermaid.min.js",
    "d0830a6c05546e9edb8fe20a8f545f3e0dc7c4c3134d584bad9c13a99d7a71e0",
)
"""Draws the diagrams. From 11.13 on it names arrowheads as the theme's colours don't expect."""

WORKER = Script(
    "iframe-worker",
    "1.0.4",
    "shim/index.js",
    "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609",
)
"""Lets the search work in pages that are opened from the disk."""


def have_scripts(scripts: Sequence[Script] = (MERMAID, WORKER)) -> bool:
    """Whether they are in CACHE; they are fetched if npm is there.

    Raises:
        SystemExit: what was fetched is not what is pinned.
    """
    return all((CACHE / one.name).exists() or _fetch(one) for one in scripts)


def _fetch(script: Script) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        return False
    with TemporaryDirectory() as folder:
        named = f"{script.package}@{script.version}"
        command = [npm, "pack", "--silent", named]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603 -- pinned
        archive = Path(folder) / f"{script.package}-{script.version}.tgz"
        shutil.unpack_archive(archive, folder, filter="data")
        content = (Path(folder) / "package" / script.member).read_bytes()
    if hashlib.sha256(content).hexdigest() != script.sha256:
        raise SystemExit(f"tidemark: npm's {named} is not the one that is pinned")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / script.name).write_bytes(content)
    return True
