"""Processes with a failpoint switched on, and what a test does to them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.faults.process import PROJECT, environment
from tests.faults.region import FaultRegion

from tidemark import failpoints

SECONDS = 300


@dataclass(frozen=True, slots=True)
class Broken:
    """A program in a session of its own: it and its pool can be stopped and killed together."""

    process: "subprocess.Popen[str]"

    @classmethod
    def start(
        cls, region: FaultRegion, program: str, failpoint: str = "", library: Path | None = None
    ) -> "Broken":
        """Start the program with a failpoint such as `publish.moved=kill@2`."""
        known = environment(region, library or PROJECT / "plugins")
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.process", program],
                env={**os.environ, **known, failpoints.VARIABLE: failpoint},
                cwd=PROJECT,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        )

    def end(self) -> tuple[int, str]:
        """Wait for its end; exit code and last words. What it leaves behind is killed.

        Whoever of it stops from now on is let go: each worker of a pool has its own failpoints.
        """
        deadline = time.monotonic() + SECONDS
        try:
            while (words := self._last_words()) is None:
                assert time.monotonic() < deadline, f"no end after {SECONDS} s"
                for member in self._family():
                    if _status(member) == psutil.STATUS_STOPPED:
                        resume(member)
        finally:
            self.kill()
        return self.process.returncode, words.strip()

    def _last_words(self) -> str | None:
        """What it said until its end; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.communicate(timeout=1)[1]
        return None

    def kill(self) -> None:
        """Nothing of it runs."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def wait_until_stopped(self) -> psutil.Process:
        """Return the process, it or one of its pool, that has reached its `stop`.

        Raises:
            AssertionError: it ended before, so the failpoint never fired.
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"never stopped: {self.end()}"
            for member in self._family():
                if member.is_running() and _status(member) == psutil.STATUS_STOPPED:
                    return member
            time.sleep(0.02)
        raise AssertionError(f"not stopped after {SECONDS} s")

    def _family(self) -> list[psutil.Process]:
        try:
            driver = psutil.Process(self.process.pid)
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
