"""What a command costs: CPU seconds and peak memory of all its processes, sampled while it runs.

Memory is the proportional set size: pages that forked workers share are counted once.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import psutil

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_SECONDS = 0.2  # what a process does after the last one is not seen


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a command that ended well."""

    wall: float
    cpu: float
    """Seconds, with those that it cost the servers."""
    peak_mb: float
    """Of all its processes at one moment."""
    output: str


def measure(argv: Sequence[str], env: dict[str, str], servers: Sequence[int] = ()) -> Usage:
    """Run the command; account for its processes and for what it cost the servers (by pid).

    Raises:
        RuntimeError: it did not end well; with what it said at last.
    """
    cpu: dict[int, float] = {}
    before, peak_mb, wall, code = sum(map(tree_cpu, servers)), 0.0, 0.0, None
    with TemporaryFile("w+") as output, TemporaryFile("w+") as words:
        started = time.monotonic()
        process = psutil.Popen(
            argv, env={**os.environ, **env}, cwd=ROOT, stdout=output, stderr=words
        )
        try:
            while code is None:
                with suppress(psutil.TimeoutExpired):
                    code = process.wait(SAMPLE_SECONDS)
                    wall = time.monotonic() - started
                memory = 0.0
                for one in _family(process.pid):
                    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        cpu[one.pid] = sum(one.cpu_times()[:2])  # as last seen
                        memory += one.memory_full_info().pss / 2**20
                peak_mb = max(peak_mb, memory)
        finally:
            end_tree(process.pid)
        for file in (output, words):
            file.seek(0)
        if code:
            raise RuntimeError(f"ended with {code}: {words.read().strip()[-500:]}")
        spent = sum(cpu.values()) + sum(map(tree_cpu, servers)) - before
        return Usage(wall, spent, peak_mb, output.read())


def end_tree(pid: int) -> None:
    """SIGKILL for a process and all below it, as when a machine goes down."""
    family = _family(pid)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=20)


def tree_cpu(pid: int) -> float:
    """Seconds of a process and of all below it, living or reaped."""
    total = 0.0
    for process in _family(pid):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []
