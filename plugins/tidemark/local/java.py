"""The Java on this machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tidemark.local.errors import JavaMissing


def java() -> Path:
    """The java command, of version 17 or newer.

    Raises:
        NotStarted: there is none, or it is older; says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise JavaMissing
    version = _major(Path(found))
    if version < 17:
        raise JavaMissing(found=Path(found), version=version)
    return Path(found)


def _major(command: Path) -> int:
    told = subprocess.run(  # noqa: S603
        [command, "-version"], capture_output=True, text=True, check=False
    )
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match.group(1)) if match else 0
