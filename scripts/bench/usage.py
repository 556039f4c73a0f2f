"""What processes cost: CPU seconds and peak memory by role, sampled while a command runs.

Memory is the proportional set size: pages that forked workers share are counted once.
"""

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

SAMPLE_SECONDS = 0.5


@dataclass(slots=True)
class Usage:
    """CPU seconds and peak memory (MB, proportional) by role, over one command."""

    wall: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    peak_mb: dict[str, float] = field(default_factory=dict)
    peak_total_mb: float = 0.0
    """Of all roles at one moment; the peaks by role may have been at different ones."""
    exit_code: int = 0
    output: str = ""
    words: str = ""
    """What it said on stderr."""
    others: float = 0.0
    """CPU seconds of all other processes of the machine meanwhile, short-lived ones of ours too."""


def measure(
    argv: Sequence[str],
    env: dict[str, str],
    servers: dict[str, int],
    cwd: str,
    sample_seconds: float = SAMPLE_SECONDS,
) -> Usage:
    """Run the command; account for its processes and for what it cost the servers (by pid)."""
    before = {role: tree_cpu(pid) for role, pid in servers.items()}
    machine = _machine_cpu() - _own_cpu()
    started = time.monotonic()
    process = subprocess.Popen(  # noqa: S603
        argv,
        env={**os.environ, **env},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sampler = _Sampler(process.pid, sample_seconds)
    sampler.start()
    try:
        output, words = process.communicate()
    finally:
        sampler.stop()
        end_tree(process.pid)
    usage = Usage(time.monotonic() - started, sampler.cpu, sampler.peak_mb)
    usage.peak_total_mb = sampler.peak_total_mb
    usage.exit_code, usage.output, usage.words = process.returncode, output, words
    usage.cpu |= {role: tree_cpu(pid) - before[role] for role, pid in servers.items()}
    usage.others = max(0.0, _machine_cpu() - _own_cpu() - machine - sum(usage.cpu.values()))
    return usage


class _Sampler:
    def __init__(self, pid: int, seconds: float) -> None:
        self._pid = pid
        self._seconds = seconds
        self._by_process: dict[int, tuple[str, float]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_mb: dict[str, float] = {}
        self.peak_total_mb = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cpu(self) -> dict[str, float]:
        """CPU seconds by role, as last seen of each process."""
        total: dict[str, float] = {}
        for role, seconds in self._by_process.values():
            total[role] = total.get(role, 0.0) + seconds
        return total

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            memory: dict[str, float] = {}
            for process in _family(self._pid):
                self._look(process, memory)
            for role, mb in memory.items():
                self.peak_mb[role] = max(mb, self.peak_mb.get(role, 0.0))
            self.peak_total_mb = max(self.peak_total_mb, sum(memory.values()))

    def _look(self, process: psutil.Process, memory: dict[str, float]) -> None:
        try:
            # what has ended has no command line any more
            role = _role(process) or self._by_process[process.pid][0]
            times = process.cpu_times()
            memory[role] = memory.get(role, 0.0) + process.memory_full_info().pss / 2**20
        except (KeyError, psutil.NoSuchProcess, psutil.AccessDenied):
            return
        self._by_process[process.pid] = (role, times.user + times.system)


def _role(process: psutil.Process) -> str | None:
    """The role that its command line tells; None where there is none."""
    words = process.cmdline()
    if not words:
        return None
    if "java" in process.name():
        return "Spark JVM"
    return "Python workers" if any(word.endswith("spark.daemon") for word in words) else "driver"


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end_tree(pid: int) -> None:
    """SIGKILL for a process and all below it, as when a machine goes down."""
    family = _family(pid)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=20)


def _machine_cpu() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _own_cpu() -> float:
    return sum(psutil.Process().cpu_times()[:2])


def tree_cpu(pid: int) -> float:
    """Seconds of a process and of all below it, living or reaped."""
    return sum(map(_cpu, _family(pid)))


def _cpu(process: psutil.Process) -> float:
    """Its seconds and those of its reaped children; none if it has just ended."""
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))
    return 0.0
