"""Processes with a failpoint switched on, and what a test does to them."""

import atexit
import json
import os
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

import psutil
from tests.faults.process import LIBRARY, forked
from tests.faults.region import FaultRegion

SECONDS = 300


@dataclass(frozen=True, slots=True)
class Broken:
    """A program in a session of its own: it and its pool can be stopped and killed together."""

    process: ForkServerProcess
    words: IO[str]

    @classmethod
    def start(
        cls, region: FaultRegion, program: str, failpoint: str = "", library: Path = LIBRARY
    ) -> "Broken":
        """Start the program with a failpoint such as `publish.moved=kill@2`."""
        words = tempfile.NamedTemporaryFile("r")  # noqa: SIM115 (it goes with the object)
        world = json.dumps(asdict(region))
        process = forked(program, world, failpoint, library, words.name)
        atexit.register(process.kill)  # a stopped one would be waited for at the end of the tests
        return cls(process, words)

    def end(self) -> tuple[int, str]:
        """Wait for its end; exit code and last words. What it leaves behind is killed.

        Whoever of it stops from now on is let go: each worker of a pool has its own failpoints.
        """
        deadline = time.monotonic() + SECONDS
        try:
            while self.runs(1):
                assert time.monotonic() < deadline, f"no end after {SECONDS} s"
                for member in self._family():
                    if _status(member) == psutil.STATUS_STOPPED:
                        resume(member)
        finally:
            self.kill()
        assert self.process.exitcode is not None
        return self.process.exitcode, self.words.read().strip()

    def runs(self, seconds: float = 0) -> bool:
        """Whether it has not ended within the time."""
        self.process.join(seconds)
        return self.process.exitcode is None

    def kill(self) -> None:
        """Nothing of it runs."""
        self.process.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """The driver's, and its session's."""
        assert self.process.pid
        return self.process.pid

    def wait_until_stopped(self) -> psutil.Process:
        """Return the process, it or one of its pool, that has reached its `stop`.

        Raises:
            AssertionError: it ended before, so the failpoint never fired.
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert self.runs(), f"never stopped: {self.end()}"
            for member in self._family():
                if member.is_running() and _status(member) == psutil.STATUS_STOPPED:
                    return member
            time.sleep(0.02)
        raise AssertionError(f"not stopped after {SECONDS} s")

    def _family(self) -> list[psutil.Process]:
        try:
            driver = psutil.Process(self.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def resume(stopped: psutil.Process) -> None:
    """It goes on; a worker may be gone, killed by its driver when another task had failed."""
    with suppress(psutil.NoSuchProcess):
        stopped.send_signal(signal.SIGCONT)


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""
