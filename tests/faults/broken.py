"""Processes with a failpoint switched on, and what a test does to them."""

import atexit
import os
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import IO

import psutil
from tests.faults.process import forked
from tests.faults.region import FaultRegion
from tests.faults.seeded import NOT_PLANTED, Seed
from tests.support.processes import family, resume, stopped
from tests.support.waiting import until

SECONDS = 300


@dataclass(frozen=True, slots=True)
class Broken:
    """A program in a session of its own: it and its pool can be stopped and killed together."""

    process: ForkServerProcess
    words: IO[str]

    @classmethod
    def start(
        cls, region: FaultRegion, program: str, failpoint: str = "", seed: Seed | None = None
    ) -> "Broken":
        """Start the program with a failpoint such as `publish.moved=kill@2`."""
        words = tempfile.NamedTemporaryFile("r")  # noqa: SIM115 (it goes with the object)
        process = forked(program, region, failpoint, seed, words.name)
        atexit.register(process.kill)  # a stopped one would be waited for at the end of the tests
        return cls(process, words)

    def end(self) -> tuple[int, str]:
        """Wait for its end; exit code and last words. What it leaves behind is killed.

        A program whose seed could not be planted is a failure of the test.

        Whoever of it stops from now on is let go: each worker of a pool has its own failpoints.
        """
        try:
            until(self._ended, SECONDS, pause=0)
        finally:
            self.kill()
        code, words = self.process.exitcode, self.words.read().strip()
        assert code is not None
        assert code != NOT_PLANTED, words
        return code, words

    def runs(self) -> bool:
        """Whether it has not ended."""
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
        until(lambda: stopped(family(self.pid)) or not self.runs(), SECONDS)
        found = stopped(family(self.pid))
        assert found, f"never stopped: {self.end()}"
        return found[0]

    def _ended(self) -> bool:
        self.process.join(0.5)
        if self.runs():
            for member in stopped(family(self.pid)):
                resume(member)
        return not self.runs()
