"""Prometheus' own promtool: the machine's, or Debian's package unpacked beside the tests."""

import shutil
import subprocess
from pathlib import Path


def promtool(folder: Path) -> str | None:
    """Its path; None where neither is to be had."""
    found = shutil.which("promtool")
    unpacked = folder / "usr" / "bin" / "promtool"
    if found or unpacked.exists():
        return found or str(unpacked)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _run(folder, "apt-get", "download", "prometheus")
        [package] = folder.glob("prometheus_*.deb")
        _run(folder, "dpkg", "-x", str(package), ".")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return str(unpacked) if unpacked.exists() else None


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
