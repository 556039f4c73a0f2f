"""Prometheus' own promtool: the machine's, or Debian's, as scripts/promtool unpacks it."""

import shutil
from pathlib import Path

UNPACKED = Path(__file__).resolve().parents[2] / ".tidemark" / "promtool" / "usr" / "bin"


def promtool() -> str | None:
    """Its path; None where neither is."""
    return shutil.which("promtool") or shutil.which("promtool", path=UNPACKED)
