"""What a command costs: CPU seconds and peak memory of all its processes, sampled while it runs.

Memory is the proportional set size: pages that forked workers share are counted once.
"""

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
SAMPLE_SECONDS = 0.2


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
    before = sum(map(tree_cpu, servers))
    started = time.monotonic()
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603
        argv, env={**os.environ, **env}, cwd=ROOT, stdout=pipe, stderr=pipe, text=True
    )
    sampler = _Sampler(process.pid)
    sampler.start()
    try:
        output, words = process.communicate()
    finally:
        sampler.done.set()
        sampler.join()
        end_tree(process.pid)
    if process.returncode:
        raise RuntimeError(f"ended with {process.returncode}: {words.strip()[-500:]}")
    cpu = sum(sampler.cpu.values()) + sum(map(tree_cpu, servers)) - before
    return Usage(time.monotonic() - started, cpu, sampler.peak_mb, output)


class _Sampler(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.done = threading.Event()
        self.cpu: dict[int, float] = {}
        """Seconds as last seen of each process."""
        self.peak_mb = 0.0

    def run(self) -> None:
        while not self.done.wait(SAMPLE_SECONDS):
            memory = 0.0
            for process in _family(self.pid):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    times = process.cpu_times()
                    memory += process.memory_full_info().pss / 2**20
                    self.cpu[process.pid] = times.user + times.system
            self.peak_mb = max(self.peak_mb, memory)


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
