"""The Spark drivers that a demonstration kills."""

from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]


def drivers() -> list[psutil.Process]:
    """The Spark drivers of this project."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_driver = any(word.endswith("jobs/drain.py") for word in words) and "java" not in words[0]
        if is_driver and str(ROOT) in " ".join(words):
            found.append(process)
    return found


def kill_drivers() -> list[int]:
    """SIGKILL the drivers; return their process ids."""
    killed = []
    for process in drivers():
        with suppress(psutil.NoSuchProcess):
            process.kill()
            killed.append(int(process.pid))
    return killed
